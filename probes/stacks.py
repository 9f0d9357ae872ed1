"""What the training thread is doing, from outside: py-spy looks at it in short bursts, ever more rarely.

And, more rarely still, what one of the workers is doing that make its batches: they all do the same. A burst at the
training thread is followed by one that sees it only while it holds the interpreter (the GIL): torch's functions, sleeps
and waits let go of it and show no frame of their own, so that else they cannot be told from plain Python.

Where the system does not let us look, or py-spy is not there or fails, the guest in the process is asked for its own
stacks (`gputune/host/asking.py`). These do not tell who holds the interpreter.

py-spy runs as a process of its own and does not stop the one it looks at (`--nonblocking`: a third of its looks may
fail, which costs samples, not time). Measured with 0.4.3: a burst of 61 looks is 30 ms of CPU, beside a training on a
busy machine up to 120 ms, a single `py-spy dump` 12 to 28 ms, so bursts. Their rate is a prime number of Hz, so that
they do not march in step with the training.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from gputune.core.sample import Metric, Note, Reading, Sample, Stack, Target, Ticks, Unavailable, now
from gputune.core.units import NS
from gputune.gathering.stacks import is_scripts
from gputune.host import ptrace
from gputune.host.asking import GuestQuery, raw_stacks

FILLERS = Metric("main.fillers", "1", "Threads of a training process that run the script's code, beside it.", per="pid")
METRICS = (FILLERS,)
PERIOD = 1.0  # s; a pipe that fills up holds up py-spy, nothing else

RATE = 61  # Hz
BURST = 1  # s; py-spy takes whole seconds
FIRST = 1.5  # s from the first sight of a training to the first burst: its warm-up is of no interest
GROWTH = 2.0  # each pause is that much longer than the one before
LONGEST_PAUSE_S = 240.0  # s; 120 ms of CPU in 4 min are 0.05 % of a core; by then five bursts have told where time goes
MAKERS = 4.0  # times as long as the one before is a pause between looks at a worker: five of them in ten minutes
PATIENCE = 5.0  # s that py-spy may take longer than its burst before it is ended
GIVE_UP = 3  # failures in a row after which a process is left alone
MISSING = "py-spy is not installed"
FAILED = re.compile(r"Errors: (\d+)")


@dataclass(slots=True)
class _Training:
    """One process to look at, and when."""

    pid: int
    due: float
    pause: float = field(default_factory=lambda: FIRST)
    failures: int = 0
    growth: float = field(default_factory=lambda: GROWTH)


@dataclass(slots=True)
class _Burst:
    """A py-spy that runs."""

    training: _Training
    child: subprocess.Popen[bytes]
    began: float
    held: bool = False  # it sees only who holds the interpreter
    ended: int = field(default_factory=lambda: now() + BURST * NS)  # ns: about then it is over, and told later
    said: bytearray = field(default_factory=bytearray)
    complained: bytearray = field(default_factory=bytearray)


def attach(target: Target) -> Ticks:
    """Look at the processes that train, one at a time.

    That needs py-spy, and leave to read the memory of the others, or else a guest in them.
    """
    program = find()
    if program is None and not target.heard:
        raise Unavailable(MISSING, hint="pip install py-spy")
    looker = _Looker(target, program)
    try:
        while True:
            yield looker.tick(time.monotonic())
    finally:
        looker.close()


def find() -> str | None:
    """Return the py-spy beside our own interpreter, else the one on the PATH."""
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if beside.exists() else shutil.which("py-spy")


class _Looker:
    """Starts one burst after another and collects what they say, without ever waiting for one."""

    def __init__(self, target: Target, program: str | None) -> None:
        self._target = target
        self._program = program
        self._asking = GuestQuery(target.rings)
        self._why = "" if program else MISSING  # nobody looks from outside
        self._silent = False  # and it was told that nobody answers from inside
        self._trainings: dict[int, _Training] = {}
        self._maker: _Training | None = None  # a worker: another one once it has ended, at the pace of those before it
        self._burst: _Burst | None = None
        self._worked = False
        self._held = True  # as far as is known, py-spy can tell who holds the interpreter

    def tick(self, at: float) -> list[Reading]:
        """Return the stacks of a burst that is over, and what guests have told; begin the next burst that is due."""
        roles = self._target.pids()
        mains = [pid for pid, role in roles.items() if role == "main"]
        self._trainings = {pid: self._trainings.get(pid) or self._met(pid, at) for pid in mains}
        self._choose([pid for pid, role in roles.items() if role == "worker"], at)
        stacks = [*self._collect(at), *self._inside(set(roles), at)]
        if self._burst is None:
            due = [t for t in self._known() if at >= t.due and t.failures < GIVE_UP]
            if due:
                self._begin(min(due, key=lambda t: t.due), at)
        return stacks

    def _known(self) -> list[_Training]:
        return [*self._trainings.values(), *(() if self._maker is None else (self._maker,))]

    def _inside(self, alive: set[int], at: float) -> list[Reading]:
        """Ask the guests of those that are not seen from outside; return what they have told."""
        if not self._target.heard:
            return []
        for training in self._known():
            if at >= training.due and self._is_closed(training):
                training.failures = GIVE_UP
                self._asking.ask(training.pid)
            elif training.failures and not self._worked:  # it may be the last word of a system that forbids it
                self._asking.ask(training.pid)
        found: list[Reading] = [*self._asking.collect(alive)]
        silent = bool(self._why) and not self._asking.heard
        if silent != self._silent:
            self._silent = silent
            found.append(Note(-1, {"n": "unavailable", "probe": "stacks", "why": self._why if silent else ""}))
        return found

    def _is_closed(self, training: _Training) -> bool:
        """Return whether nobody can look at it from outside, or has failed too often."""
        if not self._why and not ptrace.allowed(self._target.proc, training.pid):
            self._why = ptrace.refusal(self._target.proc)[0]
        asked = training is not self._maker or all(each.failures >= GIVE_UP for each in self._trainings.values())
        return bool(self._why) or (asked and (training.failures >= GIVE_UP or training is self._maker))

    def _met(self, pid: int, at: float) -> _Training:
        """Return when to look at a new process: after its warm-up, or at once where it ran before we came."""
        # 1.0 s between bursts where stacks are all there is: some fifteen looks a minute, for 2 % of a core
        return _Training(pid, at + FIRST) if self._target.heard else _Training(pid, at, 1.0)

    def _choose(self, workers: list[int], at: float) -> None:
        """Have a worker that lives for the next look at one. Without a guest nobody knows which processes are any."""
        maker = self._maker
        if not workers or not self._target.heard:
            return
        if maker is None:
            self._maker = _Training(workers[0], at + 2 * FIRST, growth=MAKERS)  # the training comes first
        elif maker.pid not in workers:
            maker.pid = workers[0]

    def close(self) -> None:
        """End a burst that is under way: it never stopped its target, so nothing has to be set going again."""
        if self._burst is not None:
            self._burst.child.kill()
            self._end(self._burst)

    def _begin(self, training: _Training, at: float, *, held: bool = False) -> None:
        assert self._program is not None  # noqa: S101 - without one everything is closed
        what = ["record", "--nonblocking", "--rate", str(RATE), "--duration", str(BURST), "--format", "raw"]
        how = ["--threads", "--gil" if held else "--idle", "--full-filenames", "--output", "/proc/self/fd/1"]
        whom = ["--pid", str(training.pid)]
        child = subprocess.Popen(
            [self._program, *what, *how, *whom],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"RUST_LOG": "error"},
            start_new_session=True,  # a Ctrl-C of the terminal is not for it
        )
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        self._burst = _Burst(training, child, at, held)

    def _collect(self, at: float) -> list[Reading]:
        burst = self._burst
        if burst is None:
            return []
        ended = burst.child.poll() is not None  # asked before reading, so that nothing written before is missed
        _drain(burst.child.stdout, burst.said)
        _drain(burst.child.stderr, burst.complained)
        del burst.complained[:-4096]  # bytes of what py-spy says that are kept
        if not ended:
            if at - burst.began > BURST + PATIENCE:
                burst.child.kill()
            return []
        self._end(burst)
        if burst.held:
            return self._judge_held(burst)
        stacks = self._judge(burst, at)
        if stacks and self._held and self._target.heard and burst.training is not self._maker:
            self._begin(burst.training, at, held=True)
        return stacks

    def _end(self, burst: _Burst) -> None:
        burst.child.wait()
        for pipe in (burst.child.stdout, burst.child.stderr):
            if pipe is not None:
                pipe.close()
        self._burst = None

    def _judge(self, burst: _Burst, at: float) -> list[Reading]:
        """Plan the next burst by how this one went."""
        training, said = burst.training, burst.said.decode(errors="replace")
        stacks = list(training_stacks(said, training.pid, burst.ended))
        # 1.05 times: pauses grow like that then, so that an hour of it costs a tenth
        growth = training.growth if self._target.heard else 1.05
        if stacks or training is not self._maker:  # workers come and go: one that has ended is none that was looked at
            # 80.0 s; with many training processes the pauses grow, so that all bursts together cost no more than
            # three
            training.pause = min(training.pause * growth, max(LONGEST_PAUSE_S, 80.0 * len(self._trainings)))
        training.due = at + training.pause
        if stacks:
            self._worked = True
            training.failures = 0
        elif training.pid in self._trainings:  # else it has only ended
            training.failures += 1
            self._refused(burst.complained.decode(errors="replace"))
        beside = fillers(said, training.pid) if stacks and training is not self._maker else 0
        return [*stacks, *([Sample(FILLERS, burst.ended, beside, str(training.pid))] if beside else [])]

    def _judge_held(self, burst: _Burst) -> list[Reading]:
        """Return the stacks with which the training thread held the interpreter, and how often it did not."""
        if burst.child.returncode == 0:
            return [*held_stacks(burst.said.decode(errors="replace"), burst.training.pid, burst.ended)]
        self._held = burst.training.pid not in self._trainings  # else it is a Python of which that cannot be told
        return []

    def _refused(self, complaint: str) -> None:
        """Give up for good where the system does not allow it; any other failure may be one process's own."""
        lowered = complaint.lower()
        if self._worked or not ("permission denied" in lowered or "operation not permitted" in lowered):
            return
        self._why, hint = ptrace.refusal(self._target.proc)
        if not self._target.heard:
            raise Unavailable(self._why, hint=hint)


def _drain(pipe: IO[bytes] | None, into: bytearray) -> None:
    while pipe is not None and (data := pipe.read(65536)):
        into += data


def training_stacks(raw: str, pid: int, t: int) -> list[Stack]:
    """Return the stacks of the training thread, seen at `t` (ns), out of py-spy's raw format.

    A line is `thread (4242): MainThread;<module> (/home/u/train.py:12);step (/home/u/train.py:8) 31`: frames from the
    outermost to the innermost, and how often they were seen. The training thread is the main thread; where no thread
    is known by that name, the one that was seen most. As the process is not stopped, a stack can be torn: one that does
    not begin in the function where most begin is left out.
    """
    threads = _by_thread(raw, pid, t)
    candidates = [name for name in threads if _is_main(name, pid)] or list(threads)
    chosen = max(candidates, key=lambda name: sum(s.count for s in threads[name]), default="")
    stacks = threads.get(chosen, [])
    begins = Counter[str]()
    for stack in stacks:
        begins[_function(stack)] += stack.count
    return [stack for stack in stacks if _function(stack) == begins.most_common(1)[0][0]]


def fillers(raw: str, pid: int) -> int:
    """Return how many threads beside the main one were seen in the script's own code, out of py-spy's raw format."""
    return sum(
        any(is_scripts(frame) for stack in stacks for frame in stack.frames)
        for thread, stacks in _by_thread(raw, pid, 0).items()
        if not _is_main(thread, pid)
    )


def held_stacks(raw: str, pid: int, t: int) -> list[Stack]:
    """Return the stacks with which the main thread was seen to hold the interpreter, and one without for the rest.

    Of a look that failed nothing is known: py-spy says how many did, in the last lines of what it writes.
    """
    stacks = [
        stack._replace(held=True)
        for thread, found in _by_thread(raw, pid, t).items()
        if _is_main(thread, pid)
        for stack in found
    ]
    failed = FAILED.search(raw)
    rest = RATE * BURST - int(failed[1] if failed else 0) - sum(stack.count for stack in stacks)
    return [*stacks, Stack(t, pid, (), rest, held=True)] if rest > 0 else stacks


def _by_thread(raw: str, pid: int, t: int) -> dict[str, list[Stack]]:
    threads: dict[str, list[Stack]] = {}
    for thread, frames, count in raw_stacks(raw):
        threads.setdefault(thread, []).append(Stack(t, pid, frames, count))
    return threads


def _is_main(thread: str, pid: int) -> bool:
    return thread.endswith(": MainThread") or thread.startswith(f"thread ({pid})")


def _function(stack: Stack) -> str:
    """Return the outermost function and its file, without the line: a script's top level moves on while we look."""
    return stack.frames[0].rpartition(":")[0]
