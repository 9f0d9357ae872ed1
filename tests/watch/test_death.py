"""Whoever is killed, the training goes on, and what can be told is told."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import psutil
import pytest

import gputune
from gputune import recording
from gputune.core.events import Event, Kind
from gputune.launch import folders

STEPS = """
import sys, time, pathlib
for n in range(2400):
    pathlib.Path("step").write_text(str(n))
    time.sleep(0.05)
    if pathlib.Path("enough").exists():
        break
pathlib.Path("done").write_text("yes")
sys.exit({code})
"""


def program(tmp_path: Path, *, code: int = 3) -> tuple[str, ...]:
    """Return what starts a program of 0.05 s steps that goes on until `enough`."""
    script = tmp_path / f"train{code}.py"
    script.write_text(STEPS.format(code=code))
    return ("--", sys.executable, "-S", str(script))


def enough(tmp_path: Path) -> None:
    (tmp_path / "enough").touch()


def living(supervisor: int) -> list[psutil.Process]:
    return [child for child in psutil.Process(supervisor).children() if lives(child)]


def lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def succeeded(supervisor: int, dead: psutil.Process) -> bool:
    """Return whether another recorder lives in place of this one."""
    return not lives(dead) and len(living(supervisor)) == 2


def recorder_of(supervisor: int) -> psutil.Process:
    """Return the child that is a fork of the supervisor."""
    return next(child for child in living(supervisor) if child.cmdline() == psutil.Process(supervisor).cmdline())


def command_of(supervisor: int) -> psutil.Process:
    return next(child for child in living(supervisor) if child.cmdline() != psutil.Process(supervisor).cmdline())


def rings_of(supervisor: int) -> list[Path]:
    """Return the folders of rings of one watch that are there now."""
    name = f"gputune-rings-{os.getuid()}-{supervisor}-*"
    return [path for place in ("/dev/shm", "/tmp") for path in Path(place).glob(name)]


def test_a_killed_supervisor_leaves_the_training_to_its_own_end(started, eventually, tmp_path, run_folder) -> None:
    with started(*program(tmp_path)) as running:
        eventually((tmp_path / "step").exists)
        recorder, command = recorder_of(running.pid), command_of(running.pid)
        running.kill()
        running.wait()
        step = (tmp_path / "step").read_text()
        eventually(lambda: (tmp_path / "step").read_text() not in {"", step})  # it goes on
        enough(tmp_path)
        eventually((tmp_path / "done").exists)
        eventually(lambda: not recorder.is_running())
        eventually(lambda: not command.is_running())
        assert running.stderr.read() == ""  # finished silently
    findings = json.loads((run_folder() / "findings.json").read_text())
    assert findings["exit_code"] is None
    assert json.loads((run_folder() / "run.json").read_text())["finished"]
    eventually(lambda: not rings_of(running.pid))


def test_a_killed_recorder_is_not_noticed(started, eventually, tmp_path, run_folder) -> None:
    with started(*program(tmp_path)) as running:
        eventually((tmp_path / "step").exists)
        first = recorder_of(running.pid)
        first.kill()
        eventually(lambda: succeeded(running.pid, first))
        enough(tmp_path)
        said = running.communicate(timeout=60)
    assert running.returncode == 3
    assert said[1].count("gputune: ") == 1
    assert json.loads((run_folder() / "findings.json").read_text())["exit_code"] == 3
    told = re.search(
        r"nothing was read for ([\d.]+) s: the recorder was lost, and started again", " ".join(said[1].split())
    )
    assert told
    (missed,) = json.loads((run_folder() / "run.json").read_text())["missed"]
    first, last = (datetime.fromisoformat(missed[edge]) for edge in ("from", "to"))
    assert float(told[1]) == pytest.approx((last - first).total_seconds(), rel=0.1)
    again = subprocess.run(
        (sys.executable, "-m", "gputune", "report", run_folder(), "--again"), check=True, capture_output=True, text=True
    )
    assert told[0] in " ".join(again.stdout.split())
    eventually(lambda: not rings_of(running.pid))


def test_a_recorder_that_is_killed_again_and_again_is_let_go_until_the_end(
    started, eventually, tmp_path, run_folder
) -> None:
    with started("--json", "verdict.json", *program(tmp_path)) as running:
        eventually((tmp_path / "step").exists)
        for _ in range(4):
            eventually(lambda: len(living(running.pid)) == 2)
            dead = recorder_of(running.pid)
            dead.kill()
            eventually(lambda dead=dead: not dead.is_running())
        assert len(psutil.Process(running.pid).children()) == 1
        command_of(running.pid).terminate()
        said = running.communicate(timeout=60)
    assert running.returncode == -signal.SIGTERM
    assert said[1].count("gputune: ") == 1
    assert json.loads((tmp_path / "verdict.json").read_text())["exit_code"] == 128 + signal.SIGTERM
    assert json.loads((run_folder() / "run.json").read_text())["finished"]
    eventually(lambda: not rings_of(running.pid))


def hopeless(how: str, tmp_path: Path) -> tuple[str, ...]:
    """Return what watches a command that leaves 3, a recorder that `how` breaks, and little patience if it hangs."""
    lines = (
        "import os, signal, sys, time",
        "import gputune.launch.supervisor as s, gputune.watching.recorder.outcome as o",
    )
    options = ("--out", "run", "--json", "verdict.json", *program(tmp_path))
    start = (f"sys.argv = {['gputune', 'watch', *options]!r}", "from gputune.__main__ import main", "main()")
    enough(tmp_path)
    return (sys.executable, "-c", "\n".join([*lines, f"s.PATIENCE = {2.0 if 'sleep' in how else 50.0}", how, *start]))


AGAIN = "the recorder was killed again and again (SIGKILL)"
LOSSES = {
    "o.RunOutcome.judge = lambda *_: time.sleep(60)": "the recorder gave none within 2 s of the command's end",
    "o.RunOutcome.judge = lambda *_: os.kill(os.getpid(), signal.SIGKILL)": AGAIN,
    "o.RunOutcome.judge = lambda *_: os._exit(9)": "the recorder failed again and again (status 9)",
}


@pytest.mark.parametrize("how", LOSSES)
def test_a_verdict_that_never_comes_is_missed_aloud(how, tmp_path, popen, eventually) -> None:
    with popen(hopeless(how, tmp_path), stderr=subprocess.PIPE, text=True) as running:
        _, said = running.communicate(timeout=60)
    assert running.returncode == 3
    assert said == f"\ngputune: no verdict: {LOSSES[how]}; `gputune report run` shows what was recorded\n"
    eventually(lambda: not rings_of(running.pid))
    known = json.loads((tmp_path / "verdict.json").read_text())
    assert known["exit_code"] == 3
    assert [row["probe"] for row in known["unavailable"]] == ["recorder"]
    shown = subprocess.run(
        (sys.executable, "-m", "gputune", "report", "run"), check=False, capture_output=True, text=True
    )
    assert shown.returncode == 0
    told = " ".join(shown.stdout.split())
    assert f"{LOSSES[how]}: what was recorded ends after " in told
    assert "no training was seen up to then" in told
    assert "Python that gputune could reach" not in told
    assert "exit status 3" in told


def test_a_recorder_that_was_stopped_goes_on_at_the_end(started, eventually, tmp_path) -> None:
    with started("--json", "verdict.json", *program(tmp_path)) as running:
        eventually((tmp_path / "step").exists)
        recorder = recorder_of(running.pid)
        recorder.suspend()
        eventually(lambda: recorder.status() == psutil.STATUS_STOPPED)
        enough(tmp_path)
        said = running.communicate(timeout=60)
    assert running.returncode == 3
    assert "exit status 3" in said[1]
    assert json.loads((tmp_path / "verdict.json").read_text())["exit_code"] == 3


def test_both_killed_leave_the_training_alone(started, eventually, tmp_path) -> None:
    with started(*program(tmp_path)) as running:
        eventually((tmp_path / "step").exists)
        command, recorder = command_of(running.pid), recorder_of(running.pid)
        running.kill()
        recorder.kill()
        enough(tmp_path)
        eventually((tmp_path / "done").exists)
        eventually(lambda: not command.is_running())


def test_a_killed_training_still_gives_the_report(started, eventually, tmp_path, run_folder) -> None:
    with started(*program(tmp_path)) as running:
        eventually((tmp_path / "step").exists)
        command_of(running.pid).kill()
        said = running.communicate(timeout=60)
    assert running.returncode == -signal.SIGKILL
    assert "exit status 137 (SIGKILL)" in said[1]
    assert json.loads((run_folder() / "findings.json").read_text())["exit_code"] == 137
    eventually(lambda: not rings_of(running.pid))


def test_a_terminate_of_the_supervisor_ends_the_training(started, eventually, tmp_path) -> None:
    with started(*program(tmp_path)) as running:
        eventually((tmp_path / "step").exists)
        command = command_of(running.pid)
        running.terminate()
        assert running.wait(60) == -signal.SIGTERM
        assert not command.is_running()


def test_a_kill_of_the_whole_group_still_gives_the_report(started, eventually, tmp_path) -> None:
    with started(*program(tmp_path), start_new_session=True) as running:
        eventually((tmp_path / "step").exists)
        os.killpg(running.pid, signal.SIGUSR1)
        said = running.communicate(timeout=60)
    assert running.returncode == -signal.SIGUSR1
    assert "gputune: " in said[1]


def test_what_the_command_leaves_in_the_background_is_left_alone(watch, tmp_path, eventually) -> None:
    began = time.monotonic()
    watch("--quiet", "--", "sh", "-c", "(sleep 1; echo yes > later) >&- 2>&- & exit 0")
    assert not (tmp_path / "later").exists() or time.monotonic() - began > 1
    eventually((tmp_path / "later").exists)


def test_no_zombie_is_left_while_it_runs(started, eventually, tmp_path) -> None:
    with started(*program(tmp_path)) as running:
        eventually((tmp_path / "step").exists)
        first = recorder_of(running.pid)
        first.kill()
        eventually(lambda: not psutil.pid_exists(first.pid))
        assert running.poll() is None
        running.terminate()
        running.communicate(timeout=60)


def test_two_watches_at_once_do_not_meet(started, tmp_path) -> None:
    enough(tmp_path)
    both = [started(*program(tmp_path, code=code)) for code in (3, 4)]
    for running in both:
        running.communicate(timeout=60)
    assert [running.returncode for running in both] == [3, 4]
    assert len(list((tmp_path / "gputune-runs").glob("*/run.json"))) == 2


def test_rings_of_the_dead_are_swept_and_those_of_the_living_are_not(watch, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(folders, "MEMORY", str(tmp_path))
    monkeypatch.setattr(folders, "LEAST_SHM", 0)
    dead, young, alive = folders.rings(), folders.rings(), folders.rings()
    held = folders.hold(alive)
    for folder in (dead, alive):
        os.utime(folder, (1, 1))
    folders.sweep()
    assert [Path(folder).exists() for folder in (dead, young, alive)] == [False, True, True]
    os.close(held)


def test_the_supervisor_imports_next_to_nothing() -> None:
    place = str(Path(gputune.__file__).parent.parent)
    program = f"import sys; sys.path.append({place!r}); import gputune.__main__, gputune.launch.supervisor"
    command = (sys.executable, "-I", "-S", "-c", f"{program}; print(*sys.modules)")
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    for heavy in ("click", "dataclasses", "inspect", "pathlib", "re", "typing", "json", "subprocess", "threading"):
        assert heavy not in loaded


BATCHES = 400
TRAIN = """
import os, time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 1600
    def __getitem__(self, i):
        time.sleep(0.001)
        return torch.zeros(3)

model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for n, batch in enumerate(DataLoader(Slow(), 4)):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    with open("new", "w") as file: file.write(str(n))
    os.replace("new", "step")
    time.sleep(0.005)
"""


def kept_batches(folder: Path) -> int:
    """Return how many batches are in the recording now."""
    try:
        ticks = list(recording.readings(folder))
    except recording.NotARun:  # not yet
        return 0
    return sum(isinstance(r, Event) and r.record.kind == Kind.BATCH for tick in ticks for r in tick)


@pytest.mark.slow
def test_time_in_which_it_was_stopped_is_nobodys_fault(started, eventually, tmp_path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    with started("--out", "run", "--", sys.executable, "train.py") as running:
        eventually(lambda: int((tmp_path / "step").read_text() or 0) > 20 if (tmp_path / "step").exists() else False)
        command = command_of(running.pid)
        began = time.monotonic()
        command.send_signal(signal.SIGSTOP)
        time.sleep(4)  # what is measured: far longer than all the rest of the loop
        command.send_signal(signal.SIGCONT)
        stopped = time.monotonic() - began
        said = running.communicate(timeout=60)
    findings = json.loads((tmp_path / "run" / "findings.json").read_text())
    assert 1 < findings["stopped_s"] <= stopped + 3
    assert sum(row["seconds"] for row in findings["ledger"]) <= findings["wall_s"] - findings["stopped_s"] + 0.01
    assert "stopped by a signal for" in said[1]
    document = json.loads(
        subprocess.run(
            (sys.executable, "-m", "gputune", "report", "run", "--json"), check=True, capture_output=True, timeout=60
        ).stdout
    )
    assert document["stopped_s"] == pytest.approx(findings["stopped_s"], abs=0.01)  # judged again from the recording
    assert {r["span"]: r["seconds"] for r in document["ledger"]} == pytest.approx(
        {r["span"]: r["seconds"] for r in findings["ledger"]}, abs=0.2
    )


def test_what_was_kept_before_the_recorder_was_killed_counts(started, eventually, tmp_path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    with started("--out", "run", "--", sys.executable, "train.py") as running:
        eventually(lambda: kept_batches(tmp_path / "run") > 50)
        recorder_of(running.pid).kill()
        step = int((tmp_path / "step").read_text() or 0)
        kept = kept_batches(tmp_path / "run")
        said = running.communicate(timeout=60)
    findings = json.loads((tmp_path / "run" / "findings.json").read_text())
    assert findings["batches"] >= kept + (BATCHES - step) - 2  # lost: what was read and not yet written, nothing else
    assert [loader["num_workers"] for loader in findings["loaders"]] == [0]
    assert sum(row["share"] for row in findings["ledger"]) == pytest.approx(1, abs=0.01)
    assert said[1].count("gputune: ") == 1, said[1]
    eventually(lambda: not rings_of(running.pid))


ODD = {
    "w.watch": ("watch", "--quiet", "--", "true"),  # the short road
    "c.run": ("watch", "--quiet", "--max-size", "1 GB", "--", "true"),  # the ordinary one
}


@pytest.mark.parametrize("where", ODD)
@pytest.mark.parametrize("how", ["KeyError('odd')", "OSError(5, 'Input/output error')", "MemoryError()"])
def test_a_start_that_fails_in_a_way_that_nobody_knew_is_one_sentence(tmp_path, where, how) -> None:
    lines = (
        "import sys, gputune.watching.starting as w, gputune.cli as c",
        f"def odd(*_): raise {how}",
        f"{where} = odd",
        f"sys.argv = {['gputune', *ODD[where]]!r}",
        "from gputune.__main__ import main; main()",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    error, blank, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout, blank) == (125, "", "")
    assert error.startswith(f"error: gputune could not begin: {how.partition('(')[0]}")
    assert hint == "hint: `gputune doctor` says whether it is whole"


def test_a_supervisor_without_memory_still_knows_the_status(started, eventually, tmp_path) -> None:
    with started(*program(tmp_path)) as running:
        eventually((tmp_path / "step").exists)
        size = psutil.Process(running.pid).memory_info().vms
        resource.prlimit(running.pid, resource.RLIMIT_AS, (size, size))
        enough(tmp_path)
        running.communicate(timeout=60)
    assert running.returncode == 3
