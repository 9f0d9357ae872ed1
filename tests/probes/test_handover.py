"""What handing a batch over takes on this host, measured once a command without workers is over."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputune.probes import handover
from gputune.sample import Note, Target, Unavailable


@pytest.fixture
def over() -> int:
    """The pid of a command that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as command:
        command.wait()
    return command.pid


def test_is_measured_once_the_command_is_over(over: int) -> None:
    ticks = handover.attach(Target(over, dict))
    (note,) = next(ticks)
    assert isinstance(note, Note)
    assert note.fields["n"] == "handover"
    assert 50 < note.fields["us"] < 1e5
    assert next(ticks) == []


def test_nothing_is_done_while_it_runs() -> None:
    ticks = handover.attach(Target(os.getpid(), dict))
    assert [next(ticks) for _ in range(3)] == [[], [], []]


def test_nothing_is_done_where_workers_have_shown_it(tmp_path) -> None:
    running = tmp_path / "7"
    running.mkdir()
    ticks = handover.attach(Target(7, lambda: {7: "main", 8: "worker"}, proc=tmp_path))
    assert next(ticks) == []
    running.rmdir()
    assert [next(ticks), next(ticks)] == [[], []]


def test_a_host_without_semaphores_says_so(over: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("multiprocessing.synchronize._multiprocessing.SemLock", refused)
    with pytest.raises(Unavailable, match="no batch can be handed over here"):
        next(handover.attach(Target(over, dict)))


def test_no_process_and_no_descriptor_is_left(over: int) -> None:
    before = len([*Path("/proc/self/fd").iterdir()])
    for _ in range(3):
        next(handover.attach(Target(over, dict)))
    assert len([*Path("/proc/self/fd").iterdir()]) <= before + 4
