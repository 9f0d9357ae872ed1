"""What is read from /proc is understood."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from gputune.host.procfs import (
    OpenProcFile,
    affinity,
    children_of,
    cpu_list,
    monotonic_of,
    stat_of,
)


def test_a_name_with_brackets_and_spaces_does_not_shift_the_fields() -> None:
    rest = b" ".join(b"%d" % field for field in range(4, 53))
    stat = stat_of(b"7 (a) R 1 (b) ) S " + rest + b"\n")
    assert stat == (b"S", 4, 14 + 15, 16 + 17, 20, 22)


def test_a_stat_that_is_not_whole_is_of_a_process_that_has_ended() -> None:
    assert stat_of(b"") is None
    assert stat_of(b"7 (a) S 1 2 3\n") is None


@pytest.mark.parametrize(("text", "cpus"), [("0-3,8\n", {0, 1, 2, 3, 8}), ("5", {5}), ("", set())])
def test_lists_of_cpus_are_read_as_the_kernel_writes_them(text: str, cpus: set[int]) -> None:
    assert cpu_list(text) == cpus


def _started(pid: int) -> int:
    stat = stat_of(Path(f"/proc/{pid}/stat").read_bytes())
    assert stat is not None
    return monotonic_of(stat.started)


def test_a_start_time_lies_on_the_monotonic_clock() -> None:
    before = time.monotonic_ns()
    child = subprocess.Popen(["sleep", "30"])
    try:
        started = _started(child.pid)
        assert before - 50_000_000 < started < time.monotonic_ns() + 50_000_000
    finally:
        child.kill()
        child.wait()


def test_a_kept_file_of_an_ended_process_says_so() -> None:
    child = subprocess.Popen(["sleep", "30"])
    file = OpenProcFile(f"/proc/{child.pid}/stat")
    child.kill()
    child.wait()
    with pytest.raises(ProcessLookupError):
        file.read()
    file.close()
    file.close()


def test_own_affinity_and_children_are_found(tmp_path) -> None:
    assert affinity(Path("/proc"), [os.getpid()]) == os.sched_getaffinity(0)
    assert children_of(str(tmp_path)) == []
