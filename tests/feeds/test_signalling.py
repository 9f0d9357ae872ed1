"""Signals to processes: who gets one, and who does not."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputune.feeds import signalling
from gputune.feeds.rows import TaskRow
from gputune.host.procfs import read_bytes, stat_of

PATIENCE = 60.0  # s


@pytest.fixture
def child() -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process that does nothing for a long time."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def stat(pid: int):
    """Return what the kernel says of it."""
    found = stat_of(read_bytes(f"/proc/{pid}/stat"))
    assert found is not None
    return found


def row(pid: int, **changes: object) -> TaskRow:
    """Return the row of a process as the screen got it."""
    facts: dict[str, object] = {"pid": pid, "name": "python", "role": "main", "run": "m8/run"}
    return TaskRow(**{**facts, "started": stat(pid).started, **changes})  # type: ignore[arg-type] # a test's own


def test_each_signal_does_what_it_is_for(child: "subprocess.Popen[bytes]", eventually: Callable[..., None]) -> None:
    task = row(child.pid)
    assert signalling.send(task, "STOP") == f"SIGSTOP was sent to {child.pid} (python)"
    eventually(lambda: stat(child.pid).state in b"T")
    assert "SIGCONT was sent" in signalling.send(task, "CONT")
    eventually(lambda: stat(child.pid).state in b"SRD")
    assert "SIGTERM was sent" in signalling.send(task, "TERM")
    assert child.wait(PATIENCE) == -signal.SIGTERM


def test_where_the_kernel_cannot_hold_on_to_it_it_is_sent_all_the_same(
    child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refused)
    assert "SIGKILL was sent" in signalling.send(row(child.pid), "KILL")
    assert child.wait(PATIENCE) == -signal.SIGKILL


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"run": ""}, "belongs to no run that is watched"),
        ({"role": "foreign"}, "belongs to no run that is watched"),
        ({"started": 1}, "its number is another process's"),
        ({"started": 0}, "it is not known which process"),
    ],
)
def test_nobody_else_gets_one(child: "subprocess.Popen[bytes]", changes: dict[str, object], says: str) -> None:
    said = signalling.send(row(child.pid, **changes), "KILL")
    assert said.startswith("nothing was sent: ")
    assert says in said
    assert child.poll() is None


def test_who_has_ended_gets_none(child: "subprocess.Popen[bytes]", eventually: Callable[..., None]) -> None:
    task = row(child.pid)
    child.kill()
    eventually(lambda: stat(child.pid).state in b"Z")
    assert signalling.send(task, "TERM") == f"nothing was sent: {child.pid} has ended"
    child.wait()
    assert signalling.send(task, "TERM") == f"nothing was sent: {child.pid} has ended"


def test_somebody_elses_process_gets_none(child: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 4242)
    assert "belongs to somebody else" in signalling.send(row(child.pid), "KILL")
    assert child.poll() is None


def test_we_ourselves_get_none(tmp_path: Path) -> None:
    assert "it is not known which process" in signalling.send(row(os.getpid()), "KILL", tmp_path)
