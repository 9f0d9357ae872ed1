"""Where shared memory is full, a process's ring lies elsewhere, and where it lies nowhere that is said."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputune.launch import folders
from gputune.probes import loader

FULL = """
import errno, os
reserve = os.posix_fallocate
def full(fd, *rest):
    path = os.readlink("/proc/self/fd/%d" % fd)
    if path.startswith(NOWHERE):
        raise OSError(errno.ENOSPC, "No space left on device")
    return reserve(fd, *rest)
os.posix_fallocate = full
"""
TRAINING = """
from torch.utils.data import DataLoader
for batch in DataLoader(list(range(8)), batch_size=2, num_workers=WORKERS):
    pass
print("trained")
"""


@pytest.fixture
def rings(tmp_path: Path) -> Path:
    """Return a folder called as a recorder calls it, for which a spare one may be made."""
    folder = tmp_path / "shm" / f"{folders.PREFIX}{os.getuid()}-1-{os.urandom(4).hex()}"
    folder.mkdir(parents=True, mode=0o700)
    return folder


@pytest.fixture
def spare() -> Iterator[Path]:
    """Return a folder for temporary files with a short name: workers put sockets there, whose names hold 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="g") as folder:
        yield Path(folder)


def training(full: Path | str, workers: int = 0) -> str:
    return f"NOWHERE = {str(full)!r}{FULL}{TRAINING.replace('WORKERS', str(workers))}"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_ring_without_room_is_made_in_the_next_place(
    watched: Callable[..., Any], rings: Path, spare: Path, workers: int
) -> None:
    done = watched(training(rings.parent, workers), env={"TMPDIR": str(spare)}).healthy()
    assert done.out == "trained\n"
    assert done.guests[done.main].state == "ring"
    assert len(done.workers) == workers
    assert len(done.records(loader.Kind.BATCH)) >= 4
    assert done.left == ["next"]
    assert list((spare / rings.name).iterdir()) == []
    assert (spare / rings.name).stat().st_mode & 0o777 == 0o700


def test_without_room_anywhere_the_process_is_not_seen_and_the_reason_is_said(
    watched: Callable[..., Any], spare: Path
) -> None:
    done = watched(training("/"), env={"TMPDIR": str(spare)}).healthy()
    assert (done.out, done.err) == ("trained\n", "")
    (guest,) = done.guests.values()
    assert (guest.state, guest.role) == ("none", "main")
    assert "No space left on device" in guest.why
    assert done.left == ["next"]


def test_somebody_elses_folder_of_that_name_is_not_used(watched: Callable[..., Any], rings: Path, spare: Path) -> None:
    trap = spare / rings.name
    trap.mkdir(mode=0o777)
    trap.chmod(0o777)
    done = watched(training(rings.parent), env={"TMPDIR": str(spare)}).healthy()
    assert list(trap.iterdir()) == []
    assert done.guests[done.main].state == "ring"  # in the place after it
    folders.remove_rings(str(rings))
    assert not any(Path(place, rings.name).exists() for place in ("/tmp", "/var/tmp"))


def test_a_link_to_elsewhere_is_no_ring(rings: Path, tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(bytes(8192))
    (rings / "1-1.ring").symlink_to(tmp_path / "other")
    with pytest.raises(loader.Foreign, match="elsewhere"):
        loader.Ring(rings / "1-1.ring")


def test_spare_folders_go_with_that_of_the_rings(rings: Path, spare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(spare))
    monkeypatch.setattr(folders, "MEMORY", str(rings.parent))
    other = spare / rings.name
    other.mkdir(mode=0o700)
    (other / "1-1.ring").write_bytes(b"")
    for folder in (rings, other):
        os.utime(folder, (1, 1))
    held = folders.hold(str(rings))
    folders.sweep()
    assert other.exists()
    os.close(held)
    folders.sweep()
    assert not other.exists()
    assert not rings.exists()
