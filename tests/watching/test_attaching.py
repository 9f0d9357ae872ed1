"""Who can be looked at from outside, and what is said of who cannot."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputune.core.errors import GputuneError
from gputune.host import ptrace
from gputune.watching import attaching
from gputune.watching.attaching import (
    IsShell,
    NoSuchProcess,
    NotPython,
    Ourselves,
    SomebodyElses,
    Worker,
    check,
    watched_already,
)

PYTHON = "/usr/bin/python3.11"
TORCH = "7f00-7f01 r-xp 00000000 fd:00 1 /venv/torch/lib/libtorch_cpu.so\n"


FORKING = """
import os, signal, sys, torch
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, i):
        return os.getpid()
def rank(number):
    signal.pause()
batches = iter(torch.utils.data.DataLoader(Data(), batch_size=None, num_workers=1))
worker = next(batches)
ranks = torch.multiprocessing.start_processes(rank, nprocs=1, join=False, start_method="fork")
print(worker, *ranks.pids(), flush=True)
sys.stdin.read()
ranks.processes[0].kill()
"""


class Proc:
    """A /proc with a few processes, as a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, pid: int, command: str, *, parent=1, exe=PYTHON, environ="", maps=TORCH, caught="") -> None:
        folder = self.root / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True)
        (folder / "cmdline").write_bytes(b"\0".join(word.encode() for word in command.split()) + b"\0")
        (folder / "stat").write_text(f"{pid} (x) S {parent} " + "0 " * 17 + "500 0 0")
        (folder / "environ").write_bytes(environ.encode().replace(b" ", b"\0"))
        (folder / "maps").write_text(maps)
        (folder / "task" / str(pid) / "children").write_text("")
        if (children := self.root / str(parent) / "task" / str(parent) / "children").exists():
            children.write_text(f"{children.read_text()}{pid} ")
        if caught:
            (folder / "status").write_text(f"Name:\tx\nSigIgn:\t0000000001001000\nSigCgt:\t{caught}\nCapInh:\t0\n")
        (folder / "mem").write_text("")
        (folder / "exe").symlink_to(exe)


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    made = Proc(tmp_path)
    made.add(100, "python train.py")
    return made


def test_a_python_of_our_own_can_be_looked_at(proc) -> None:
    check(proc.root, 100)


def test_so_can_one_that_another_program_has_started(proc) -> None:
    proc.add(90, "timeout 9h python train.py", exe="/usr/bin/timeout")
    proc.add(91, "python train.py", parent=90)
    check(proc.root, 90)


@pytest.mark.parametrize("command", ["bash run.sh", "-zsh", "/bin/sh -c x"])
def test_a_shell_is_no_training_and_its_python_is_named(proc, command) -> None:
    """A terminal's shell has this very gputune below it, and whatever is typed next."""
    proc.add(90, command, exe="/bin/bash")
    with pytest.raises(IsShell, match="process 90 is a shell") as refused:
        check(proc.root, 90)
    assert "pgrep" in refused.value.hint
    proc.add(91, "python train.py", parent=90)
    with pytest.raises(IsShell) as refused:
        check(proc.root, 90)
    assert "`gputune watch --pid 91`" in refused.value.hint
    assert refused.value.status == 2


def test_our_own_python_is_none_of_a_terminals(popen) -> None:
    """What starts us, as a terminal does, is no training for that."""
    assert os.getpid() not in attaching._pythons(Path("/proc"), os.getppid())


@pytest.mark.parametrize(("seconds", "is_short"), [(1.0, True), (11.0, True), (12.0, False), (60.0, False)])
def test_too_short_a_time_is_told_with_one_that_is_enough(seconds, is_short) -> None:
    said = attaching.too_short(seconds)
    assert bool(said) is is_short
    assert not said or "`--for 12s`" in said


@pytest.mark.parametrize("pid", [0, -5, 4711])
def test_a_pid_that_nobody_has_is_named(proc, pid) -> None:
    with pytest.raises(NoSuchProcess, match=f"there is no process {pid}"):
        check(proc.root, pid)


def test_a_zombie_is_nobody(proc) -> None:
    proc.add(101, "")
    with pytest.raises(NoSuchProcess):
        check(proc.root, 101)


def test_what_is_not_python_is_named(proc) -> None:
    proc.add(102, "/usr/bin/sleep 60", exe="/usr/bin/sleep")
    with pytest.raises(NotPython, match=r"process 102 \(`sleep`\) is not Python") as refused:
        check(proc.root, 102)
    assert refused.value.status == 2


def test_another_users_is_named_with_who_may(proc, monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: proc.root.stat().st_uid + 1)
    with pytest.raises(SomebodyElses, match="process 100 belongs to") as refused:
        check(proc.root, 100)
    assert "gputune watch --pid 100" in refused.value.hint
    assert refused.value.status == 1


def test_a_worker_leads_to_its_training(proc) -> None:
    proc.add(103, "python train.py", parent=100)
    with pytest.raises(Worker, match="looks like a worker of process 100") as refused:
        check(proc.root, 103)
    assert refused.value.hint == "`gputune watch --pid 100`"


@pytest.mark.parametrize("worker", ["python train.py", "python -c from multiprocessing.spawn import spawn_main"])
def test_a_rank_that_was_forked_is_no_worker_once_any_of_them_has_workers(proc, worker) -> None:
    for rank in (103, 104):
        proc.add(rank, "python train.py", parent=100)
    proc.add(110, worker, parent=103)
    check(proc.root, 103)
    check(proc.root, 104)


def test_a_worker_is_told_by_the_signals_that_it_catches(proc) -> None:
    proc.add(103, "python train.py", parent=100, caught="00000000000044c2")
    with pytest.raises(Worker):
        check(proc.root, 103)


@pytest.mark.parametrize("caught", ["0000000000000002", "00000000000004ea"], ids=["plain", "faulthandler"])
def test_who_was_forked_and_catches_them_not_is_a_rank(proc, caught) -> None:
    for rank in (103, 104):
        proc.add(rank, "python train.py", parent=100, caught=caught)
    check(proc.root, 103)


def test_a_rank_that_catches_them_all_is_known_by_its_workers_only(proc) -> None:
    proc.add(103, "python train.py", parent=100, caught="00000000000044c2")
    proc.add(110, "python train.py", parent=103, caught="00000000000044c2")
    check(proc.root, 103)
    with pytest.raises(Worker, match="worker of process 103"):
        check(proc.root, 110)


def test_torch_makes_its_workers_and_its_ranks_so(popen, tmp_path, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(ptrace, "allowed", lambda proc, pid: True)
    (tmp_path / "train.py").write_text(FORKING)
    command = [sys.executable, str(tmp_path / "train.py")]
    with popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as training:
        worker, rank = map(int, training.stdout.readline().split())
        if b"SigCgt:" not in Path(f"/proc/{worker}/status").read_bytes():
            pytest.skip("this kernel does not tell what signals a process catches")
        check(attaching.PROC, rank)
        with pytest.raises(Worker, match=f"worker of process {training.pid}"):
            check(attaching.PROC, worker)
        training.stdin.close()


def test_what_a_worker_reads_its_samples_through_makes_no_rank_of_it(proc) -> None:
    proc.add(103, "python train.py", parent=100)
    proc.add(110, "ffmpeg -i clip.mp4", parent=103, exe="/usr/bin/ffmpeg")
    with pytest.raises(Worker):
        check(proc.root, 103)


def test_who_was_forked_by_a_process_without_torch_is_no_worker_of_it(proc) -> None:
    proc.add(200, "python jobs.py", maps="")
    proc.add(201, "python jobs.py", parent=200)
    check(proc.root, 201)


@pytest.mark.parametrize(
    "command",
    [
        "/venv/bin/python3 /venv/bin/gputune watch",
        "/venv/bin/python3 -I -S -Xheld /venv/bin/gputune watch",
        "python -m gputune watch -- x",
    ],
)
def test_a_watch_is_no_training(proc, command) -> None:
    proc.add(105, command)
    with pytest.raises(Ourselves, match="is a `gputune watch` itself"):
        check(proc.root, 105)


def test_where_the_system_refuses_it_the_way_out_is_named(proc, monkeypatch) -> None:
    monkeypatch.setattr(ptrace, "allowed", lambda proc, pid: False)
    with pytest.raises(GputuneError, match="does not let py-spy look") as refused:
        check(proc.root, 100)
    assert "SYS_PTRACE" in refused.value.hint


def test_a_tightened_ptrace_is_named_by_its_setting(proc) -> None:
    (proc.root / "sys/kernel/yama").mkdir(parents=True)
    (proc.root / "sys/kernel/yama/ptrace_scope").write_text("1\n")
    why, hint = ptrace.refusal(proc.root)
    assert "ptrace_scope is 1" in why
    assert "ptrace_scope=0" in hint


def test_a_watch_that_listens_from_inside_is_told_of(proc, tmp_path) -> None:
    assert watched_already(proc.root, 100) == []
    rings = tmp_path / "rings"
    rings.mkdir()
    proc.add(104, "python train.py", environ=f"HOME=/ GPUTUNE_RINGS={rings} GPUTUNE_HOST_PID=77")
    assert watched_already(proc.root, 104)[0].startswith("it was started under `gputune watch` (process 77)")
    rings.rmdir()
    assert watched_already(proc.root, 104) == []


def test_looking_ends_with_the_process() -> None:
    code = (
        "import sys; from gputune.watching.attaching import Leave; leave = Leave(int(sys.argv[1]), 60.0);"
        "print('looks', flush=True); leave.wait(); print(leave.ended is not None)"
    )
    child = subprocess.Popen(["sleep", "60"])
    looker = subprocess.Popen([sys.executable, "-c", code, str(child.pid)], stdout=subprocess.PIPE, text=True)
    assert looker.stdout is not None
    assert looker.stdout.readline() == "looks\n"
    child.kill()
    assert looker.communicate(timeout=60)[0] == "True\n"
    child.wait()


@pytest.mark.parametrize("seconds", ["1.0", "600.0"])
def test_looking_ends_when_the_time_is_up_or_at_a_signal_and_touches_nothing(seconds) -> None:
    code = (
        "import sys; from gputune.watching.attaching import Leave; leave = Leave(int(sys.argv[1]), float(sys.argv[2]));"
        "print('looks', flush=True); leave.wait(); print(leave.ended is not None)"
    )
    child = subprocess.Popen(["sleep", "60"])
    looker = subprocess.Popen([sys.executable, "-c", code, str(child.pid), seconds], stdout=subprocess.PIPE, text=True)
    assert looker.stdout is not None
    assert looker.stdout.readline() == "looks\n"
    if seconds == "600.0":
        looker.terminate()
    assert looker.communicate(timeout=60)[0] == "True\n"
    assert child.poll() is None
    child.kill()
    child.wait()


def test_the_command_of_a_process_is_its_own(proc) -> None:
    assert attaching.command_of(proc.root, 100) == ("python", "train.py")
