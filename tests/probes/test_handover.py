"""What handing a batch over takes on this host, measured once a command without workers is over."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from gputune.core.sample import Note, Target
from gputune.probes import handover


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


@pytest.mark.parametrize("code", ["raise OSError(38, 'no semaphores')", "print('much')", "import time; time.sleep(60)"])
def test_where_it_cannot_be_measured_nothing_is_said(tmp_path, capfd, monkeypatch, code: str) -> None:
    monkeypatch.setattr(handover, "DEADLINE", 1.0)
    script = tmp_path / "passing.py"
    script.write_text(code)
    assert handover.measured(str(script)) == []
    assert capfd.readouterr() == ("", "")


def test_nothing_is_left_of_it(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    descriptors = len([*Path("/proc/self/fd").iterdir()])
    assert handover.measured()
    assert [*tmp_path.iterdir()] == []
    assert psutil.Process().children(recursive=True) == []
    assert len([*Path("/proc/self/fd").iterdir()]) == descriptors
