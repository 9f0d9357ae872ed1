"""A shell's job control holds for all of them: Ctrl-Z stops every process, fg lets each go on, once."""

import contextlib
import os
import pty
import signal
import sys
from pathlib import Path

import pytest

from gputune.sharing.member import Member
from gputune.sharing.spec import Spec, TaskSpec
from gputune.sharing.tasks import tasks

MINISHELL = str(Path(__file__).resolve().parents[1] / "watch" / "minishell.py")
GPUTUNE = (sys.executable, "-m", "gputune", "share")
TASK = """
import signal, sys, time
woken = []
signal.signal(signal.SIGCONT, lambda *_: woken.append(time.monotonic()))
print("up", flush=True)
deadline = time.monotonic() + 60
while not woken and time.monotonic() < deadline: time.sleep(0.01)
time.sleep(0.5)
print("woken", len(woken), flush=True)
"""


def test_a_ctrl_z_stops_all_and_each_goes_on_once(tmp_path, eventually) -> None:
    pid, terminal = pty.fork()
    if not pid:
        options = ("--procs", "2", "--no-index-args", "--trial", "0", "--log-dir", "l", "--stall-timeout", "60")
        os.execv(sys.executable, [sys.executable, MINISHELL, *GPUTUNE, *options, "--", sys.executable, "-c", TASK])
    seen = b""
    try:
        files = [tmp_path / "l" / f"process{n}.log" for n in range(2)]
        eventually(lambda: all(file.exists() and "up" in file.read_text() for file in files))
        os.write(terminal, b"\x1a")
        with contextlib.suppress(OSError):  # the last process on it is gone
            while data := os.read(terminal, 65536):
                seen += data
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)
    assert b"shell: stopped by SIGTSTP" in seen, seen
    assert b"shell: ended with 0" in seen, seen
    assert [file.read_text() for file in files] == ["up\nwoken 1\n"] * 2


def test_time_asleep_counts_against_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    (task,) = tasks(Spec(jobs=(TaskSpec(argv=("true",)),)))
    member = Member(task)
    told: list[int] = []
    monkeypatch.setattr(member, "_each", told.append)
    member.state, member.started, member.resumed, member.kill_at = "running", 100.0, 100.0, 130.0
    member.wake(50.0)
    assert (member.started, member.kill_at) == (150.0, 180.0)
    assert member.resumed > 150.0
    member.paused = True
    member.wake(1.0)
    assert told == [signal.SIGCONT]
