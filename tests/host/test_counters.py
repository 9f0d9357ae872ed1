"""Counters read together, in C and in Python: the same of the same files."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from gputune.host import counters
from gputune.host.counters import CpuClocks
from gputune.host.procfs import CLOCK_TICKS

_proc = pytest.importorskip("gputune._proc", reason="gputune was installed without a compiler")
IN_PYTHON = SimpleNamespace(stats=counters._stats, moved=counters._moved, cpu_clocks=counters._cpu_clocks)
BOTH = pytest.mark.parametrize("way", [_proc, IN_PYTHON], ids=["C", "Python"])

NAMED = b"7 (a) R 1 (b) ) S 12 2 3 4 -1 6 7 8 9 10 500 25 30 5 20 0 17 0 4711 1 2 3\n"
IO = b"rchar: 900\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 100\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n"
CPUS = b"cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 7 4 5 6 0 0\ncpu12 10 0 0 9 1 0 0 0 0 0\nintr 5 0\ncpu3 1 1 1 1 1 1\n"


@contextmanager
def opened(folder: Path, *texts: bytes) -> Iterator[list[int]]:
    files = [folder / str(number) for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_bytes(text)
    descriptors = [os.open(file, os.O_RDONLY) for file in files]
    yield descriptors
    for descriptor in descriptors:
        os.close(descriptor)


@BOTH
def test_a_process_is_taken_apart(way, tmp_path: Path) -> None:
    with opened(tmp_path, NAMED, b"", b"nonsense", NAMED[:40]) as files:
        assert way.stats([*files, -1]) == [(b"S", 12, 525, 35, 17, 4711), None, None, None, None]


@BOTH
def test_bytes_are_found_by_their_names(way, tmp_path: Path) -> None:
    with opened(tmp_path, IO, b"rchar: 1\n", b"") as files:
        assert way.moved([*files, -1]) == [(100, 8192, 900), None, None, None]


@BOTH
def test_the_first_rows_are_the_cpus(way, tmp_path: Path) -> None:
    with opened(tmp_path, CPUS) as (file,):
        assert way.cpu_clocks(file) == {0: (15, 7, 6), 12: (10, 1, 0)}


@BOTH
@pytest.mark.parametrize("call", ["stats", "moved"])
def test_what_is_no_list_of_numbers_is_a_type_error(way, call: str) -> None:
    with pytest.raises(TypeError):
        getattr(way, call)(7)
    with pytest.raises(TypeError):
        getattr(way, call)(["a"])


@BOTH
def test_a_file_that_is_closed_is_an_os_error_for_the_machine_alone(way, tmp_path: Path) -> None:
    with opened(tmp_path, NAMED) as (file,):
        pass
    assert way.stats([file]) == [None]
    with pytest.raises(OSError, match="Bad file descriptor"):
        way.cpu_clocks(file)


def real(way: object, call: str, name: str) -> object:
    descriptor = os.open(name, os.O_RDONLY)
    try:
        return getattr(way, call)([descriptor] if call != "cpu_clocks" else descriptor)
    finally:
        os.close(descriptor)


def test_the_kernels_own_files_say_the_same_both_ways() -> None:
    child = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL)
    try:
        for call, name in (("stats", "stat"), ("moved", "io")):
            (one,), (other,) = (real(way, call, f"/proc/{child.pid}/{name}") for way in (_proc, IN_PYTHON))
            assert one is not None
            assert len(one) == len(other)
            assert one[1] == other[1]
    finally:
        child.kill()
        child.wait()
    before, between, after = (real(way, "cpu_clocks", "/proc/stat") for way in (IN_PYTHON, _proc, IN_PYTHON))
    for cpu, (used, *_) in between.items():
        assert before[cpu][0] <= used <= after[cpu][0] + CLOCK_TICKS


@BOTH
def test_an_ended_process_is_none(way) -> None:
    child = subprocess.Popen(["sleep", "60"])
    descriptor = os.open(f"/proc/{child.pid}/stat", os.O_RDONLY)
    child.kill()
    child.wait()
    assert way.stats([descriptor]) == [None]
    os.close(descriptor)


def clocks(proc: Path, used: int) -> None:
    (proc / "stat").write_text(f"cpu  {used} 0 0 9 1 0 0 0 0 0\ncpu0 {used} 0 0 9 1 0 0 0 0 0\nintr 5 0\n")


def test_what_one_has_read_of_the_cpus_serves_the_others_once(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(counters, "FRESH", float("inf"))
    clocks(tmp_path, 10)
    one, other = CpuClocks(tmp_path), CpuClocks(tmp_path)
    assert one.read() == {0: (10, 1, 0)}
    clocks(tmp_path, 20)
    assert other.read() == {0: (10, 1, 0)}
    assert other.read() == {0: (20, 1, 0)}
    assert one.read() == {0: (20, 1, 0)}
    one.close()
    clocks(tmp_path, 30)
    assert other.read() == {0: (30, 1, 0)}
    other.close()


def test_an_old_reading_of_the_cpus_serves_nobody(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(counters, "FRESH", -1.0)
    clocks(tmp_path, 10)
    one, other = CpuClocks(tmp_path), CpuClocks(tmp_path)
    one.read()
    clocks(tmp_path, 20)
    assert other.read() == {0: (20, 1, 0)}
    for reader in (one, other):
        reader.close()
