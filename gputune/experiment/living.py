"""The script as it runs, read by this process while it goes on, and recorded where that is asked for.

It has a session of its own, so that a Ctrl-C reaches only us, and its output goes to a log. It is ended by its guest
after its batches (`gputune_guest/trial.py`), by an order, or from here.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gputune.core import plugins
from gputune.core.hygiene import mask
from gputune.core.sample import Json, Reading, Target, now
from gputune.experiment.budget import Budget
from gputune.experiment.record import StartRecord
from gputune.experiment.timeline import Timeline
from gputune.experiment.writable import Writable
from gputune.features import Features
from gputune.gathering import Gatherer
from gputune.host.procfs import read_bytes
from gputune.host.tree import Tree
from gputune.launch import family, folders, landlock
from gputune.launch.run import HZ
from gputune.sampler.ticker import ROOM, Ticker

GRACE_S = 10.0  # s after a Ctrl-C for its `finally`
FIRST_TO_GO = "1000"  # where memory is over, the kernel ends a trial, and all that it has started, before others
LEFT_OUT = frozenset({"stacks"})  # they cost more than they tell in some seconds


class ProcessMemory(NamedTuple):
    """B of memory of a process: what it answers for (PSS), and what its end gives back, for nobody shares it.

    Batches lie in shared memory, and pages of files can be had back at any time: neither is a process's `own`.
    """

    held: int
    own: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPlan:
    """One start: what runs where, where its log goes, and how long it trains."""

    command: tuple[str, ...]
    cwd: str
    folder: Path
    seconds: float  # of batches
    batches: int = 0  # 0: as many as come in that time
    skip: int = 0  # of these, left out: more where more may lie ready
    seed: int = 1
    environment: Mapping[str, str] = field(default_factory=dict)
    budget: Budget | None = None  # once it is over, the start is ended
    where: str = ""  # only batches of the loader built there count for `batches` and `seconds`; "" for any
    whole: bool = False  # pauses are timed like everything else, and steps where there are no batches
    recorded: bool = False  # its recording is kept beside its log


class LiveStart:
    """One start that goes on. `special` goes to the guest with the rest of GPUTUNE_TRIAL. `end()` it, whatever comes.

    It writes as ever, or where it is `writable`. Raises OSError where it cannot be started.
    """

    def __init__(
        self,
        plan: StartPlan,
        name: str,
        rules: Sequence[Mapping[str, Json]] = (),
        writable: Writable | None = None,
        **special: Json,
    ) -> None:
        self.log = _log(plan.folder, name)
        self.timeline = Timeline(whole=plan.whole)
        self.worker: ProcessMemory | None = None  # of one worker, the mean of all, when memory was looked at
        self.began = time.monotonic()
        self._rings = folders.rings()
        self._lock = -1
        self._status: int | None = None
        self._interrupted = False
        self._record: StartRecord | None = None
        asked: dict[str, Json] = {"batches": plan.batches, "seconds": plan.seconds, "seed": plan.seed, **special}
        asked |= {"host": os.getpid(), **({"where": plan.where} if plan.where else {})}
        if writable is not None:
            asked |= writable.asked()
        with contextlib.ExitStack() as undone:  # nobody ends what is broken off here, by a Ctrl-C say
            undone.callback(self._forget)
            self._lock = folders.hold(self._rings)
            started = now()
            undone.callback(family.end_marked, self._mark)
            self._process = _started(plan, self.log, self._environment(plan, asked, rules), writable)
            undone.callback(self._process.wait)
            undone.callback(os.killpg, self._process.pid, signal.SIGKILL)
            if plan.recorded:
                self._record = StartRecord(self.log.with_suffix(""), plan.command, plan.cwd, self._process.pid, started)
            self._tree = Tree(self._process.pid)
            undone.callback(self._tree.close)
            self._gatherer = Gatherer(mask(plan.command), started)
            target = Target(self._process.pid, self._tree.pids, rings=Path(self._rings), hz=HZ)  # readings a second
            probes = [probe for probe in plugins.names(ROOM) if probe not in LEFT_OUT]
            self._ticker = Ticker(target, hz=HZ, sink=self._take, tree=self._tree, probes=probes)
            undone.pop_all()
        self._due = time.monotonic()

    @property
    def _mark(self) -> str:
        """Return what stands in the environment of all that it has started."""
        return f"GPUTUNE_RINGS={self._rings}"

    def _environment(
        self, plan: StartPlan, asked: Mapping[str, Json], rules: Sequence[Mapping[str, Json]]
    ) -> dict[str, str]:
        """Return the environment of a start: ours, without what was meant for another gputune, and with the guest."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
        theirs = plain.get("PYTHONPATH")
        plain["PYTHONPATH"] = os.pathsep.join([folders.guest(), *([theirs] if theirs else [])])
        plain["GPUTUNE_RINGS"] = self._rings
        plain["GPUTUNE_TRIAL"] = json.dumps(asked)
        if rules:
            plain["GPUTUNE_OVERRIDE"] = json.dumps(list(rules))
        return {**plain, **plan.environment}

    def _take(self, readings: list[Reading]) -> None:
        self._gatherer.take(readings)
        self.timeline.take(readings)
        if self._record is not None:
            self._record.take(readings)

    @property
    def seconds(self) -> float:
        """Return for how long it runs."""
        return time.monotonic() - self.began

    def beat(self) -> bool:
        """Wait for the next beat and read everything; return whether it still goes on."""
        time.sleep(max(0.0, self._due - time.monotonic()))
        self._due = max(self._due + 1 / HZ, time.monotonic())
        over = self._ended()
        self._ticker.tick(everything=over)
        return not over

    def _ended(self) -> bool:
        """Return whether it has ended; it is not reaped yet, so that its session stays its own."""
        if self._status is None:
            found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                died = found.si_code != os.CLD_EXITED
                self._status = 128 + found.si_status if died else found.si_status
        return self._status is not None

    @property
    def status(self) -> int | None:
        """Return what it has left with, as a shell says it; None while it goes on."""
        return self._status

    def features(self) -> Features:
        """Return what is known of it by now."""
        return self._gatherer.features(now(), exit_code=self._status, unavailable=dict(self._ticker.unavailable))

    def memory(self, workers: int = 0) -> int | None:
        """Return the B of memory that it and all that it has started answer for (PSS), None where that is not told.

        A worker that was just forked has said nothing yet, but halves what its parent answers for. So it is looked at
        until nobody came or left between two looks; None too where they never cease, or fewer `workers` are there.
        """
        before: dict[int, ProcessMemory] = {}
        for _ in range(5):  # at its memory, until nobody came or left between two of them
            found = self._held()
            if found.keys() == before.keys():
                loading = [found[pid] for pid, role in self._tree.pids().items() if role == "worker" and pid in found]
                self.worker = _mean(loading) if loading else None
                return sum(each.held for each in found.values()) or None if len(loading) >= workers else None
            before = found
        return None

    def _held(self) -> dict[int, ProcessMemory]:
        """Return the memory of each of its processes that holds any: one that has ended may wait to be reaped."""
        self._tree.refresh()
        found = {pid: _held(pid) for pid in {*self._tree.pids(), *self.timeline.pids.values()}}
        return {pid: each for pid, each in found.items() if each.held}

    def interrupt(self, among: Set[int] | None = None) -> None:
        """Send its training processes, or those `among` them, a Ctrl-C, once: their `finally` and `atexit` run.

        Where none is known to train, all of its group get it as by a Ctrl-C at a terminal: it may not have come to its
        first batch yet.
        """
        if self._interrupted:
            return
        self._interrupted = True
        processes = self.timeline.trainings() if among is None else among
        pids = self._tree.pids().keys() & {self.timeline.pids.get(process, 0) for process in processes}
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if not pids and among is None:
                os.killpg(self._process.pid, signal.SIGINT)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGINT)

    def end(self) -> None:
        """Ask what is left of it to end, end it and all that it has started; then let go of everything."""
        try:
            if not self._ended() and not self._interrupted:
                self.interrupt()
                self._grant(GRACE_S)
            if not self._ended():
                os.kill(self._process.pid, signal.SIGTERM)
                self._grant(3.0)  # s more, after a SIGTERM, for who is deaf to a Ctrl-C
        finally:
            self._kill()

    def _grant(self, seconds: float) -> None:
        """Wait for its end at most so long."""
        until = time.monotonic() + seconds
        while not self._ended() and time.monotonic() < until:
            time.sleep(0.02)

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)  # its session: it was not reaped, so the number is still its own
        family.end_marked(self._mark)  # ranks have sessions of their own
        code = self._process.wait()
        self._status = code if code >= 0 else 128 - code
        self._ticker.close()
        self._tree.close()
        if self._record is not None:
            self._record.close(self.features())
        self._forget()

    def _forget(self) -> None:
        folders.remove_rings(self._rings)
        if self._lock >= 0:
            os.close(self._lock)


def end_with_us() -> None:
    """Have a start that goes on ended on our way out when we are asked to leave, as it is at a Ctrl-C."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, lambda number, _frame: sys.exit(128 + number))


def new_log(folder: Path, name: str) -> tuple[Path, int]:
    """Make the file for the output of the next start in a folder; return it, and its descriptor, open for writing.

    For starts elsewhere, several of which may end at once. Raises OSError where it cannot be made.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    while True:
        log = _log(folder, name)
        with contextlib.suppress(FileExistsError):
            return log, os.open(log, flags, 0o600)


def _log(folder: Path, name: str) -> Path:
    """Return the file for the output of the next start in a folder."""
    numbers = (entry.name.partition("-")[0] for entry in folder.iterdir())
    number = 1 + max((int(number) for number in numbers if number.isdigit()), default=0)
    return folder / f"{number}-{name.replace(' ', '-')}.log"


def _started(
    plan: StartPlan, log: Path, environment: Mapping[str, str], writable: Writable | None
) -> "subprocess.Popen[bytes]":
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(log, flags, 0o600), "wb") as output:

        def start() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                plan.command,
                cwd=plan.cwd,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

        with _interruptible():
            if writable is None or writable.why:
                process = start()
            else:  # its log too: a script may open /dev/stderr
                process = landlock.within([*writable.places, str(log), environment["GPUTUNE_RINGS"]], start)
    with contextlib.suppress(OSError):
        Path(f"/proc/{process.pid}/oom_score_adj").write_text(FIRST_TO_GO)
    return process


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Have what is started meanwhile heed a Ctrl-C, which background jobs of a shell ignore, and what they start."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: None)  # what has a handler is the default again in who is started
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _mean(found: Sequence[ProcessMemory]) -> ProcessMemory:
    return ProcessMemory(*(sum(each) // len(found) for each in zip(*found, strict=True)))


def _held(pid: int) -> ProcessMemory:
    rows = [row.split() for row in read_bytes(f"/proc/{pid}/smaps_rollup").splitlines()[1:]]
    told = {row[0]: int(row[1]) * 1024 for row in rows if row[2:] == [b"kB"]}
    own = told.get(b"Private_Dirty:", 0) - told.get(b"Pss_Shmem:", 0)
    return ProcessMemory(told.get(b"Pss:", 0), max(0, own))
