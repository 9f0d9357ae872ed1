"""One start of the script for some batches, and what came of it: a failure is an answer here, and never the end.

`gputune_guest/trial.py` ends the script after its batches; a script that hangs is ended by a deadline. What it writes
goes to the trial's own folder, as far as the guest can see to that (docs/sweep.md).
"""

import os
import re
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from statistics import harmonic_mean
from typing import NamedTuple

from gputune.core.errors import BY_SIGNAL
from gputune.core.hygiene import clean
from gputune.core.pace import Pace
from gputune.core.sample import Json
from gputune.experiment.filling import ran_out, shortage
from gputune.experiment.living import GRACE_S, LiveStart, ProcessMemory, StartPlan
from gputune.experiment.measured import scatter
from gputune.experiment.rungs import RUNGS
from gputune.experiment.timeline import WARM_UP
from gputune.experiment.writable import Writable
from gputune.features import Features
from gputune.features.concurrent_loaders import ALONE, Company
from gputune.launch.output import tail

NOISE = 0.01  # relative: standard error between two starts of one training on a quiet machine
STUCK_S = 60.0  # s that it may take beyond its own limit: a batch under way, its `finally`, its `atexit`
RAISED = 1  # Python's status for an error that nobody caught
INTERRUPTED = BY_SIGNAL + signal.SIGINT
KILLED = BY_SIGNAL + signal.SIGKILL  # as the kernel does, when memory is over
# What frameworks say when memory is over; the kernel says nothing, it kills.
OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|MemoryError|can't allocate memory|Cannot allocate memory|std::bad_alloc|"
    r"(?:CUBLAS|CUDNN)_STATUS_ALLOC_FAILED",
    re.IGNORECASE,
)
NO_SHM = re.compile(r"unable to (?:allocate|mmap|resize|write to)[^\n]*shared memory", re.IGNORECASE)
BUS = re.compile(r"signal: Bus error", re.IGNORECASE)  # of a torch that does not allocate before it writes
NOT_PICKLED = re.compile(
    r"can't pickle|cannot pickle|PicklingError|can't get (?:local )?(?:attribute|object)", re.IGNORECASE
)
WORKER_DIED = re.compile(r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) [^\n]*", re.IGNORECASE)
# Its batch was in the queue, and the descriptor of its memory has to be had of the worker itself, which is gone.
WORKER_GONE = re.compile(r"in rebuild_storage_fd\n(?:.*\n)*(?:Connection\w+Error|EOFError|FileNotFoundError)\b")
# What Python says of `__del__` and atexit is no reason: workers that are ended then are told of as if they had died.
IGNORED = re.compile(r"^Exception ignored [^\n]*\n(?:Traceback [^\n]*\n(?:[ \t][^\n]*\n)*[^\n]*\n?)?", re.MULTILINE)

# Asked at a rung with a rate (samples/s) and its relative error: whether the trial goes on.
Judge = Callable[[float, float, float], bool]


class State(Enum):
    """What came of a start."""

    OK = "ok"
    OOM = "oom"
    FAILED = "failed"


class Cause(Enum):
    """Why a start brought no rates, or not enough of them."""

    UNKNOWN = "unknown"
    NO_BATCH = "no-batch"  # none came in the time that it had for its first
    DRIED_UP = "dried-up"  # no more came
    STUCK = "stuck"  # it did not end when its time was over
    TOO_FEW = "too-few"  # batches to be timed
    OUT_OF_TIME = "out-of-time"  # the budget of all starts was over
    OUT_OF_MEMORY = "out-of-memory"
    NOT_PICKLED = "not-pickled"  # its dataset cannot be handed to workers
    WORKER_DIED = "worker-died"
    LEFT = "left"  # it ended by itself, with a status
    NOT_OBEYED = "not-obeyed"  # its loader was not built as it was asked for
    SIZE_NOT_SET = "size-not-set"  # the same, of the batch size

    @property
    def hung(self) -> bool:
        """Return whether it was ended for want of batches."""
        return self in {Cause.NO_BATCH, Cause.DRIED_UP, Cause.STUCK}

    @property
    def own_error(self) -> bool:
        """Return whether it may be an error of the script's own."""
        return not self.hung and self not in {Cause.NOT_PICKLED, Cause.WORKER_DIED}


class Fault(NamedTuple):
    """What went wrong with a start: what a program asks for, and a sentence for people."""

    cause: Cause
    why: str

    @property
    def state(self) -> State:
        """Return what came of a start with it."""
        return State.OOM if self.cause is Cause.OUT_OF_MEMORY else State.FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start that is over. Without `rates` (samples/s of parts) too few batches came, and `why` says the reason.

    With rates, `why` says that it was given up early.
    """

    state: State
    log: str
    why: str = ""
    cause: Cause = Cause.UNKNOWN
    seconds: float = 0.0  # all of it, start-up included
    looped: float = 0.0  # s from its first batch to its last
    memory: int | None = None  # B that its processes held (PSS) once all workers had made batches; None: not seen
    worker: ProcessMemory | None = None  # of one worker then
    batches: int = 0
    exit_code: int | None = None
    over: bool = False  # its time was up: it did not end by itself
    where: str = ""  # the loader that was timed
    rates: tuple[float, ...] = ()
    pace: Pace | None = None  # whose parts these are, where it was timed on this machine
    run: Features | None = None
    notes: tuple[Mapping[str, Json], ...] = ()
    loaders: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    shared: bool = False  # the line that builds the loader that was timed builds others too
    company: Company = ALONE  # how many of them live at once
    apart: Mapping[str, int] = field(default_factory=dict)  # where loaders were built to batches with gradients off
    node: str = ""  # of a cluster, on which it ran

    @property
    def fault(self) -> Fault:
        """Return what went wrong with one that failed."""
        return Fault(self.cause, self.why)


def start(  # noqa: PLR0913 - what a start is made of
    plan: StartPlan,
    name: str,
    *,
    where: str = "",
    rules: Sequence[Mapping[str, Json]] = (),
    within: float,
    judge: Judge | None = None,
    writable: Writable | None = None,
    **special: Json,
) -> Start:
    """Start the script once, and wait for its end. `special` goes to the guest (`trial.py`).

    `writable`: where it may write. `within`: s in which its first batch has to come. `where`: the loader that is timed,
    else the one that is waited for most. `judge` is asked at each rung whether it goes on (`rungs.py`).
    """
    told = Hopes(judge, plan.folder / f"stop-{os.urandom(4).hex()}") if judge is not None else None
    live = LiveStart(plan, name, rules, writable, **special, **({"stop": str(told.file)} if told is not None else {}))
    try:
        fault, memory = _follow(live, plan, where, within, told)
    finally:
        live.end()
        if told is not None:
            told.file.unlink(missing_ok=True)
    found = outcome(live, where, fault, plan.skip)
    if told is not None and told.given_up and found.state is State.OK:
        found = replace(found, why=told.given_up)
    return replace(found, memory=memory, worker=live.worker)


class Stragglers:
    """Ranks that still train after one of them has had its batches: each ends by its own clock.

    The others then wait in an exchange for the one that has left: gloo raises an error, NCCL waits for ever.
    """

    def __init__(self) -> None:
        self._moved = 0.0  # s of the start at which one of them last had a batch
        self._came = -1

    def are_over(self, live: LiveStart) -> bool:
        """Return whether they have had a Ctrl-C, as nothing came to them any more, and time for their `finally`."""
        behind = live.timeline.behind() & live.timeline.trainings()
        if not behind:
            return False
        came = live.timeline.came(behind)
        if came != self._came:
            self._moved, self._came = live.seconds, came
        usual = live.seconds * len(behind) / max(1, came)  # s a batch, at the most
        # 5.0 s without a batch after which ranks are ended that may wait for ever for one that has left
        alone = live.seconds - self._moved - max(5.0, 2 * usual)
        if alone > 0:
            live.interrupt(behind)
        return alone > GRACE_S


class Hopes:
    """What a trial tells at its rungs, and the file by which it is given up. `given_up`: why, in a sentence."""

    def __init__(self, judge: Judge, file: Path) -> None:
        self.file = file
        self.given_up = ""
        self._judge = judge
        self._left = deque(sorted(RUNGS))

    def look(self, live: LiveStart, where: str, age: float, whole: float) -> None:
        """Ask the judge, where `age` s of `whole` bring the trial to its next rung and its rate is known."""
        if not self._left or age < self._left[0] * whole:
            return
        rates = live.timeline.rates(where, WARM_UP)
        if not rates:
            return
        rung = self._left.popleft()
        if not self._judge(rung, harmonic_mean(rates), scatter(rates)):
            self._left.clear()
            self.file.touch(mode=0o600)
            self.given_up = f"given up after {age:.1f} of {whole:.1f} s: far behind the best"


def _follow(
    live: LiveStart, plan: StartPlan, where: str, within: float, hopes: Hopes | None
) -> tuple[Fault | None, int | None]:
    """Wait until it has ended; return why it has to be ended from here (else nothing), and what memory it held."""
    first = 0.0
    memory = None
    whole = False  # memory was looked at with all workers at work
    left = Stragglers()
    while live.beat():
        if not first and live.timeline.came_to(where):
            first = live.seconds
        # 1.0 s of batches after which its memory is looked at
        if first and live.seconds - first > 1.0 and (memory is None or not whole):
            delivered = live.timeline.delivered(where)
            if memory is None or delivered:
                memory, whole = live.memory() or memory, delivered
        if first and hopes is not None:
            hopes.look(live, where, live.seconds - first, plan.seconds)
        if not first and live.seconds > within:
            return Fault(Cause.NO_BATCH, f"no batch came in the first {within:.0f} s"), memory
        if plan.budget is not None and plan.budget.over:
            return Fault(Cause.OUT_OF_TIME, plan.budget.words()), memory
        if left.are_over(live):
            return None, memory
        if first and live.seconds - first > plan.seconds + STUCK_S:
            limits = f"it had {plan.seconds:.0f} s for its batches, and {STUCK_S:.0f} s to end"
            return Fault(Cause.STUCK, f"it was stuck: {limits}"), memory
    return None, memory


def outcome(live: LiveStart, where: str, fault: Fault | None = None, skip: int = 0) -> Start:
    """Return what came of a start that is over. `fault`: the reason for which it was ended from here, if it was."""
    run, told, status = live.features(), live.timeline, live.status
    where = where or most_waited(run)
    pace = told.pace(where, max(WARM_UP, told.queue(where) + 2, skip), 0, told.length(where))
    notes = tuple(note for _, note in told.notes)
    if _ended_well(live, run):
        status = 0
    if fault is not None or status:
        fault = fault_of(live.log, fault or left(status), run)
    elif pace is None:
        fault = Fault(Cause.TOO_FEW, f"it ended after {told.batches(where)} batches, too few to time")
    return Start(
        state=State.OK if fault is None else fault.state,
        log=str(live.log),
        why="" if fault is None else fault.why,
        cause=Cause.UNKNOWN if fault is None else fault.cause,
        seconds=live.seconds,
        looped=max((p.loop for p in run.processes), default=0.0),
        batches=told.batches(where),
        exit_code=status,
        over=not status and any(n.get("n") == "trial" and "batches" in n for n in notes),
        where=where,
        rates=pace.parts if pace is not None and fault is None else (),
        pace=pace,
        run=run,
        notes=notes,
        loaders=told.loaders,
        shared=told.shared(where),
        company=told.company(where),
        apart=told.apart,
    )


def _ended_well(live: LiveStart, run: Features) -> bool:
    """Return whether a start that left with a status did so because its trial was over.

    Two kinds do: a script whose loader a thread iterates (its guest interrupts it), and ranks that wait for one which
    had its batches first.
    """
    told = live.timeline
    by_thread = any(note.get("n") == "trial" and note.get("interrupted") for _, note in told.notes)
    by_ranks = bool(told.behind()) and not run.oom_kills[0]
    return (live.status == INTERRUPTED and by_thread) or (bool(live.status) and by_ranks)


def most_waited(run: Features) -> str:
    """Return where the training loader was built that was waited for most, "" where there is none."""
    found = [x for p in run.processes for x in p.loaders if x.training and x.pipeline is None]
    return max(found, key=lambda x: (x.wait_total, x.batches)).where if found else ""


def fault_of(log: Path, fault: Fault, run: Features) -> Fault:
    """Return what its log says it died of, else this fault; of one that left by itself with its last words."""
    text = tail(log, 65536).decode("utf-8", "replace")  # B of a log's end that may tell why it failed
    text = IGNORED.sub("", text).strip() or text
    # 60 lines: what it said before was caught, or of no importance; a launcher has its own last words
    text = "\n".join(text.splitlines()[-60:])
    said = text.strip().splitlines()[-1:]
    last = clean(said[0], 300) if said else ""  # characters of a log that a sentence shows
    memory = _of_memory(text, run)
    if memory:
        return Fault(Cause.OUT_OF_MEMORY, memory)
    if NOT_PICKLED.search(text):
        return Fault(Cause.NOT_PICKLED, f"its dataset cannot be handed to workers: {last}")
    died = WORKER_DIED.search(text)
    if died:
        return Fault(Cause.WORKER_DIED, clean(died.group()))
    if WORKER_GONE.search(text):
        return Fault(Cause.WORKER_DIED, f"a DataLoader worker exited unexpectedly, its batch not yet taken: {last}")
    return fault._replace(why=f"{fault.why}: {last}") if last and fault.cause is Cause.LEFT else fault


def _of_memory(text: str, run: Features) -> str:
    """Return in a sentence that memory was over, "" where it was not."""
    if run.oom_kills[0]:
        return "the kernel killed a process for want of memory"
    said = "shared memory (`/dev/shm`) was full" if NO_SHM.search(text) else ""
    if BUS.search(text) and not said:
        said = "a worker died of a bus error: `/dev/shm` was full, or a file that it had mapped was cut"
    device = ran_out(run)
    if device is not None:
        return f"it ran out of memory: {shortage(device)}"
    said = said or ("it ran out of memory" if OUT_OF_MEMORY.search(text) else "")
    if said and run.exit_code not in {None, RAISED} and (run.exit_code or 0) < BY_SIGNAL:
        return f"{said}, by its last words; {status_words(run.exit_code)}"
    if said:
        return said
    return "it was killed (SIGKILL), as the kernel does for want of memory" if run.exit_code == KILLED else ""


def status_words(code: int | None) -> str:
    """Return what a status, as a shell says it, tells of how the script ended."""
    if code is not None and code > BY_SIGNAL:
        return f"it died of signal {code - BY_SIGNAL}"
    return f"it left with status {code}"


def left(status: int | None) -> Fault:
    """Return that it left by itself, with a status as a shell says it."""
    return Fault(Cause.LEFT, status_words(status))


def too_few(start: Start) -> bool:
    """Return whether its time was up before it had enough batches to be timed: that is no fault of its settings."""
    return start.over and start.cause is Cause.TOO_FEW


def refused(start: Start, wanted: Mapping[str, Json]) -> Fault | None:
    """Return why the loader was not built as it was asked for, None where it was."""
    said = [note for note in start.notes if note.get("n") == "override"]
    for note in said:
        reasons = note.get("refused")
        if isinstance(reasons, dict) and reasons:
            name, why = next(iter(reasons.items()))
            cause = Cause.SIZE_NOT_SET if name == "batch_size" else Cause.NOT_OBEYED
            return Fault(cause, f"{clean(name)}: {clean(str(why))}")
    if wanted and not said:
        return Fault(Cause.NOT_OBEYED, "the loader was not built at that line this time")
    return None
