"""Which runs go on here."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.launch import folders
from gputune.launch.job import MARK
from gputune.runs.whereabouts import fresh, live_runs

Make = Callable[..., Any]
SUPERVISORS = folders.supervisors


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the supervisors that there are: none, unless a test names them."""
    there: list[int] = []
    monkeypatch.setattr(folders, "supervisors", lambda: there)
    return there


def process(proc: Path, pid: int, *, children: str = "", folder: Path | None = None) -> None:
    """Make /proc/PID of a process that has children, and a folder open."""
    (proc / str(pid) / "task" / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "task" / str(pid) / "children").write_text(children)
    (proc / str(pid) / "fd").mkdir()
    if folder is not None:
        (proc / str(pid) / "fd" / "7").symlink_to(folder)


def run(folder: Path) -> Path:
    """Make a run folder."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    return folder


def test_a_recorder_has_its_folder_open(tmp_path: Path, alone: list[int]) -> None:
    folder = run(tmp_path / "elsewhere" / "run-1")
    alone += [10, 99]
    process(tmp_path / "proc", 10, children="11 12 ")
    process(tmp_path / "proc", 11, folder=folder)
    process(tmp_path / "proc", 12, folder=tmp_path)
    assert live_runs(tmp_path, tmp_path / "proc") == [folder]


def test_fresh_folders_of_here_are_found_and_old_ones_are_not(tmp_path: Path) -> None:
    new, old = run(tmp_path / folders.RUNS / "2-new"), run(tmp_path / folders.RUNS / "1-old")
    os.utime(old / "run.json", (1e9, 1e9))
    assert live_runs(tmp_path, tmp_path / "proc") == [new]


def test_a_seat_leads_to_its_job(tmp_path: Path) -> None:
    job = tmp_path / folders.RUNS / "3-job"
    run(job / "rank-00000")
    (job / MARK).write_text("key")
    (job / "run.json").write_text("{}")
    assert fresh(job)
    assert live_runs(tmp_path, tmp_path / "proc") == [job]


def test_nothing_is_nothing(tmp_path: Path) -> None:
    assert live_runs(tmp_path, tmp_path / "proc") == []
    assert not fresh(tmp_path / "nowhere")


def test_supervisors_are_told_by_the_names_of_rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(folders, "_everywhere", lambda: [str(tmp_path), str(tmp_path / "gone")])
    for name in (f"{os.getuid()}-123-ab", f"{os.getuid()}-7-cd", f"{os.getuid()}-x-cd", f"{os.getuid() + 1}-9-ef"):
        (tmp_path / f"{folders.PREFIX}{name}").mkdir()
    assert folders.supervisors() == [7, 123]


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Give something to another user, as far as anybody asks."""
    lstat = os.lstat
    owned: set[str] = set()

    def changed(path: object, **options: Any) -> os.stat_result:
        found = lstat(path, **options)  # type: ignore[call-overload] # whatever a path may be
        other = os.getuid() + 1 if str(path) in owned else found.st_uid
        return os.stat_result((*found[:4], other, *found[5:10]))

    monkeypatch.setattr(os, "lstat", changed)
    return lambda path: owned.add(str(path))


def test_another_users_rings_processes_and_runs_are_left_out(
    tmp_path: Path, alone: list[int], theirs: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read them, and the name of a folder in shared memory is anybody's to choose."""
    mine, other = run(tmp_path / "elsewhere" / "mine"), run(tmp_path / "elsewhere" / "other")
    for pid, folder in ((10, mine), (11, other), (12, mine)):
        process(tmp_path / "proc", pid, folder=folder)
    here = run(tmp_path / folders.RUNS / "9-theirs")
    for path in (other, tmp_path / "proc" / "12", here):
        theirs(path)
    alone += [11, 12]
    assert live_runs(tmp_path, tmp_path / "proc") == []
    alone += [10]
    assert live_runs(tmp_path, tmp_path / "proc") == [mine]
    monkeypatch.setattr(folders, "_everywhere", lambda: [str(tmp_path)])
    rings = tmp_path / f"{folders.PREFIX}{os.getuid()}-123-ab"
    rings.mkdir()
    monkeypatch.setattr(folders, "supervisors", SUPERVISORS)
    assert folders.supervisors() == [123]
    theirs(rings)
    assert folders.supervisors() == []
