"""A start that goes on: its memory is that of all its processes, also of those that have said nothing yet."""

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gputune.core.sample import Target
from gputune.experiment import living
from gputune.experiment.living import LiveStart, StartPlan
from gputune.launch import folders

DEADLINE = 60.0  # s; only a hang ends here
HELD = 64 << 20
FORKING = f"""
import os, signal
data = b"x" * {HELD}  # shared by all from here on
for _ in range(8):
    if not os.fork():
        signal.pause()
print("forked", flush=True)
signal.pause()
"""

DEAF = """
import signal, subprocess, sys
lines = ("import signal", "for n in (2, 15): signal.signal(n, lambda *_: None)", "print('deaf', flush=True)")
deaf = "\\n".join((*lines, "while True: signal.pause()"))
print(subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True).pid, flush=True)
signal.pause()
"""

TELLING = """
import subprocess, sys, time
score = "print(open('/proc/self/oom_score_adj').read(), flush=True)"
while open("/proc/self/oom_score_adj").read().strip() != "1000":
    time.sleep(0.01)  # it is told from outside, and soon
subprocess.run([sys.executable, "-c", score])
"""


def test_a_rank_in_a_session_of_its_own_does_not_outlive_it(tmp_path: Path, eventually: Callable[..., None]) -> None:
    plan = StartPlan(command=(sys.executable, "-c", DEAF), cwd=str(tmp_path), folder=tmp_path, seconds=DEADLINE)
    live = LiveStart(plan, "start")
    try:
        while b"deaf" not in live.log.read_bytes() and live.seconds < DEADLINE:
            assert live.beat(), live.log.read_text()
        pid = int(live.log.read_text().split()[0])
    finally:
        live.end()
    eventually(lambda: _state(pid) in "ZX")


def test_where_memory_is_over_a_trial_and_what_it_has_started_go_first(tmp_path: Path) -> None:
    plan = StartPlan(command=(sys.executable, "-c", TELLING), cwd=str(tmp_path), folder=tmp_path, seconds=DEADLINE)
    live = LiveStart(plan, "start")
    try:
        while live.beat() and live.seconds < DEADLINE:
            pass
        assert live.log.read_text().strip() == "1000"
    finally:
        live.end()


def _state(pid: int) -> str:
    """Return the state of a process as the kernel has it, X where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def test_what_a_forked_process_shares_is_not_lost(tmp_path: Path) -> None:
    plan = StartPlan(command=(sys.executable, "-c", FORKING), cwd=str(tmp_path), folder=tmp_path, seconds=DEADLINE)
    live = LiveStart(plan, "start")
    try:
        while not live.log.read_bytes().startswith(b"forked") and live.seconds < DEADLINE:
            assert live.beat(), live.log.read_text()
            time.sleep(0.01)
        held = live.memory()
        assert live.memory(workers=1) is None  # they are no workers of a loader
    finally:
        live.end()
    assert held is not None
    assert HELD <= held < 4 * HELD


def test_what_is_broken_off_as_it_begins_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    begun: list[int] = []

    def rings(make: Callable[[], str] = folders.rings) -> str:
        made.append(make())
        return made[-1]

    def ctrl_c(target: Target, **_: object) -> None:
        begun.append(target.root_pid)
        raise KeyboardInterrupt

    monkeypatch.setattr(folders, "rings", rings)
    monkeypatch.setattr(living, "Ticker", ctrl_c)
    code = "import signal; signal.pause()"
    with pytest.raises(KeyboardInterrupt):
        LiveStart(
            StartPlan(command=(sys.executable, "-c", code), cwd=str(tmp_path), folder=tmp_path, seconds=DEADLINE),
            "start",
        )
    assert [_state(pid) for pid in begun] == ["X"]  # and reaped
    assert [Path(folder).exists() for folder in made] == [False]


LOADING = """
import atexit, signal
atexit.register(lambda: print("atexit", flush=True))
try:
    print("loading", flush=True)
    signal.pause()
finally:
    print("finally", flush=True)
"""


@pytest.mark.parametrize("shell", [False, True])
def test_a_script_that_has_not_come_to_a_batch_yet_ends_by_its_own_doors_as_well(
    tmp_path: Path, *, shell: bool
) -> None:
    (tmp_path / "train.py").write_text(LOADING)
    script = (sys.executable, "train.py")
    command = ("sh", "-c", f"{sys.executable} train.py; exit $?") if shell else script
    live = LiveStart(StartPlan(command=command, cwd=str(tmp_path), folder=tmp_path, seconds=DEADLINE), "start")
    try:
        while b"loading" not in live.log.read_bytes() and live.seconds < DEADLINE:
            assert live.beat(), live.log.read_text()
    finally:
        live.end()
    said = live.log.read_text().splitlines()
    assert ("loading" in said, "finally" in said, "atexit" in said) == (True, True, True)


def test_a_background_job_of_a_shell_ends_what_it_has_started_by_a_ctrl_c(tmp_path: Path) -> None:
    """Such a shell has it ignore its own, and what ignores a signal passes that on."""
    (tmp_path / "train.py").write_text(LOADING)
    plan = StartPlan(command=(sys.executable, "train.py"), cwd=str(tmp_path), folder=tmp_path, seconds=DEADLINE)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        live = LiveStart(plan, "start")
        try:
            while b"loading" not in live.log.read_bytes() and live.seconds < DEADLINE:
                assert live.beat(), live.log.read_text()
        finally:
            live.end()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert "finally" in live.log.read_text().splitlines()
