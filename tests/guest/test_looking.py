"""A guest looks at its own training thread where nobody may look from outside: only if asked, and nobody notices."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.sample import Note, Stack, Target
from gputune.host.asking import GuestQuery
from gputune.probes import stacks

LOOP = """
import gc, os, signal, sys, threading, time
import torch
from gputune_guest import looking
from torch.utils.data import DataLoader
looking.SHORTEST, looking.SHARE = 0.01, 10.0  # this test has no time
model, optimizer = torch.nn.Module(), torch.optim.Optimizer()
def bookkeeping():
    end = time.monotonic() + 0.002
    while time.monotonic() < end: pass
def tasks():
    return [int(name) for name in os.listdir("/proc/self/task") if int(name) != os.getpid()]
def rounds(until):
    while not until():
        for batch in DataLoader(list(range(64)), batch_size=1):
            optimizer.step()
            bookkeeping()
            if until(): return
enough = lambda: os.path.exists("enough")
print(len(tasks()))
"""
ASKED = "rounds(tasks)\n"  # until it has begun


class Recorder:
    """Asks each training, and says to it that it is enough once so many stacks were told."""

    def __init__(self, rings: Path, many: int) -> None:
        self._asking, self._file = GuestQuery(rings), rings.parent / "enough"
        self.enough: Callable[[list[Stack]], bool] = lambda found: len(found) >= many
        self.found: list[Stack] = []

    def __call__(self, process: Any, _readings: object) -> None:
        self._asking.ask(process.pid)
        self.found += self._asking.collect({process.pid})
        if self.enough(self.found):
            self._file.touch()

    def rest(self) -> list[Stack]:
        """Return what was told at the end."""
        return self._asking.collect(set())


@pytest.fixture
def recorder(rings: Path) -> Callable[[int], Recorder]:
    return lambda many=20: Recorder(rings, many)


def _seen(found: list[Stack], function: str) -> int:
    return sum(any(frame.startswith(f"{function} (") for frame in stack.frames) for stack in found)


def test_nobody_looks_unless_asked(watched, fake_torch) -> None:
    run = watched(LOOP + "rounds(iter([0] * 200 + [1]).__next__)\nprint(len(tasks()))", path=(fake_torch,)).healthy()
    assert run.out.split() == ["0", "0"]
    assert run.left == ["next"]


def test_every_interpreter_shows_where_its_loop_is(watched, fake_torch, python, recorder) -> None:
    each = recorder()
    run = watched(LOOP + "rounds(enough)", path=(fake_torch,), python=python, act=each).healthy()
    assert run.out == "0\n"
    assert run.err == ""
    assert {stack.frames[0].partition(" ")[0] for stack in each.found} == {"<module>"}
    assert _seen(each.found, "rounds") == len(each.found)
    assert [stack.t for stack in each.found] == sorted(stack.t for stack in each.found)


def test_plain_python_is_seen_where_it_is_and_not_at_the_next_call_that_waits(
    watched, fake_torch, python, recorder
) -> None:
    """No call in `bookkeeping` lets go of the interpreter: whoever merely waits for that never sees it."""
    version = subprocess.run([python, "-V"], stdout=subprocess.PIPE, check=True, text=True).stdout.split()[1]
    if version.startswith(("3.9.", "3.10.", "3.11.", "3.12.")):
        pytest.skip("the main thread hears of who waits after 5 ms")
    each = recorder()
    each.enough = lambda found: _seen(found, "bookkeeping") > 5
    watched(LOOP + "rounds(enough)", path=(fake_torch,), python=python, act=each).healthy()
    assert _seen(each.found, "bookkeeping") > 5


def test_plain_python_that_goes_on_is_seen_where_it_is(watched, fake_torch, python, recorder) -> None:
    each = recorder()
    each.enough = lambda found: _seen(found, "bookkeeping") > 5
    long = LOOP.replace("0.002", "0.03")
    watched(long + "rounds(enough)", path=(fake_torch,), python=python, act=each).healthy()
    assert _seen(each.found, "bookkeeping") > 5


def test_no_list_of_threads_knows_of_it_and_no_signal_is_kept_from_the_training(watched, fake_torch, recorder) -> None:
    code = """
(native,) = tasks()
print(threading.active_count(), len(threading.enumerate()))
(line,) = [line for line in open("/proc/self/task/%d/status" % native) if line.startswith("SigBlk")]
mask = int(line.split()[1], 16)
print(all(mask >> number - 1 & 1 for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGCHLD)))
print(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
"""
    run = watched(LOOP + ASKED + code, path=(fake_torch,), act=recorder()).healthy()
    assert run.out.splitlines() == ["0", "1 1", "True", "set()"]


@pytest.mark.parametrize("collects", ["enable", "disable"])
def test_the_garbage_collector_is_as_it_was(watched, fake_torch, recorder, python, collects) -> None:
    code = f"""
gc.{collects}()
seen, finished = set(), enough
def enough():
    seen.add(gc.isenabled())
    return finished()
rounds(enough)
print(*seen)
"""
    run = watched(LOOP + code, path=(fake_torch,), python=python, act=recorder()).healthy()
    assert run.out.split()[1:] == [str(collects == "enable")]


def test_nothing_is_collected_on_a_thread_that_is_not_theirs(watched, fake_torch, recorder) -> None:
    code = """
import weakref
gc.set_threshold(1)
class Ring:
    def __init__(self): self.me = self
    def __del__(self): where.add(threading.get_ident())
where, finished = set(), enough
def enough():
    Ring()
    return finished()
rounds(enough)
print(where == {threading.get_ident()})
"""
    run = watched(LOOP + code, path=(fake_torch,), act=recorder()).healthy()
    assert run.out.split()[-1] == "True"


def test_a_fork_meets_no_second_thread_and_looking_goes_on(watched, fake_torch, python, recorder) -> None:
    code = """
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(len(tasks()))
    assert os.waitpid(pid, 0)[1] == 0
for _ in range(3): fork()
rounds(enough)
"""
    each = recorder()
    flags = ("-W", "always")
    run = watched(LOOP + ASKED + code, path=(fake_torch,), python=python, flags=flags, act=each).healthy()
    assert "multi-threaded" not in run.err
    assert len(each.found) >= 20


def test_what_was_seen_last_is_told_at_the_exit(watched, fake_torch, recorder) -> None:
    each = recorder(10**6)
    code = "looker = looking._looker\nrounds(lambda: looker._looks >= 2)\n"
    watched(LOOP + ASKED + code, path=(fake_torch,), act=each).healthy()
    assert _seen(each.found + each.rest(), "rounds") >= 2


def test_once_the_run_is_over_nobody_looks_any_longer(watched, fake_torch, python, recorder) -> None:
    code = (
        "from gputune_guest import ring\nlooking.LONGEST = looking.SHORTEST = 60.0\nring.rest()\nprint(len(tasks()))\n"
    )
    run = watched(LOOP + ASKED + code, path=(fake_torch,), python=python, act=recorder()).healthy()
    assert run.out.split() == ["0", "0"]


def test_while_nobody_reads_little_is_kept(watched, fake_torch, recorder) -> None:
    code = """
looker = looking._looker
rounds(lambda: len(looker._kept) == looking.MOST)
before = looker._looks
rounds(lambda: looker._looks > before + 5)
told = len(open(looker._path + ".told").readlines())
print(len(looker._kept) == looking.MOST, looking.TOLD <= told <= looking.MOST)
"""
    ask = recorder()._asking.ask
    run = watched(LOOP + ASKED + code, path=(fake_torch,), act=lambda process, _: ask(process.pid)).healthy()
    assert run.out.split()[1:] == ["True", "True"]


def test_looks_cost_a_thousandth_of_the_time(watched, fake_torch, recorder) -> None:
    code = """
looking.SHORTEST, looking.SHARE = 0.1, 0.001
looker = looking._looker
rounds(lambda: looker._looks >= 5)
looker._looks = 10**6  # whatever else these few took
looker._spent = looker._looks * 0.05
pauses = [looker._pause() for _ in range(500)]
print(40 < sum(pauses) / 500 < 60, min(pauses) < 20, max(pauses) > 80)
"""
    run = watched(LOOP + ASKED + code, path=(fake_torch,), act=recorder()).healthy()
    assert run.out.split()[1:] == ["True", "True", "True"]


def test_a_worker_shows_how_it_makes_its_batches(watched, rings, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(stacks, "find", lambda: None)
    monkeypatch.setattr(stacks, "FIRST", 0.0)
    roles: dict[int, str] = {}
    probe = stacks.attach(Target(1, lambda: roles, rings=rings))
    found: list[Any] = []

    def act(process: Any, readings: list[Any]) -> None:
        for reading in readings:
            if getattr(reading, "role", "other") != "other":
                roles[reading.pid] = reading.role
        found.extend(next(probe))
        workers = [stack for stack in found if isinstance(stack, Stack) and stack.pid != process.pid]
        if _seen(workers, "__getitem__") and len(found) > len(workers) + 2:
            (rings.parent / "enough").touch()

    code = """
import os, time, torch
from torch.utils.data import DataLoader
class Rows:
    def __len__(self): return 10**6
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.zeros(4)
def main():
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in DataLoader(Rows(), batch_size=4, num_workers=1):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        if os.path.exists("enough"): break
if __name__ == "__main__": main()
"""
    watched(code, act=act).healthy()
    assert [note.fields["why"] for note in found if isinstance(note, Note)] == [stacks.MISSING, ""]
    assert time.monotonic_ns() > max(stack.t for stack in found if isinstance(stack, Stack))
