"""The part of the gatherer that listens to one training process: its ledger, its places, its loaders."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from gputune.core.events import (
    ENVIRONMENT_SPAN,
    SPAN_NAMES,
    STOPPING,
    BatchCode,
    DelayCode,
    Kind,
    Record,
    SegmentCode,
    SpanCode,
)
from gputune.core.figures import half_wilson
from gputune.core.sample import Guest, Json, Open
from gputune.core.units import NS
from gputune.features import (
    DeviceStep,
    Drawn,
    Filing,
    HeldBack,
    Loader,
    OutOfMemory,
    Place,
    Precision,
    Process,
    Slope,
)
from gputune.features.concurrent_loaders import Companions
from gputune.gathering.acting import Acted
from gputune.gathering.allocations import Allocations
from gputune.gathering.backlog import Backlog
from gputune.gathering.clocked import Clocked
from gputune.gathering.copies import Copies
from gputune.gathering.host import HostMeans
from gputune.gathering.intervals import Intervals
from gputune.gathering.introduced import Introduced
from gputune.gathering.ledger import Claim, Ledger
from gputune.gathering.loader import WARM_UP, LoaderState, maybe
from gputune.gathering.missed import Missed
from gputune.gathering.passes import Passes, PassGap
from gputune.gathering.precision import precise
from gputune.gathering.rollouts import Key, Rollouts
from gputune.gathering.rounds import Rounds
from gputune.gathering.settling import Settling
from gputune.gathering.slowing import Slowing
from gputune.gathering.stacks import Stacks
from gputune.gathering.stops import Stops
from gputune.gathering.storage import Varieties, filing
from gputune.gathering.stretches import Stretches
from gputune.gathering.sync_points import Meetings
from gputune.gathering.trouble import TROUBLES, Trouble
from gputune.model.minimum_samples import LEAST_LOOKS

GAPS = 4096  # gaps of the device's clock that are kept, the latest
FORWARDS = 2000  # timings of sampled steps kept: what comes after the last step, what the guest took
LATE = 4096  # iterators whose workers' records may still come
DEVICES = 32  # devices of files kept
# Looked up for every record, and an enum's members are slow to look up.
BATCH, SPAN, STEP, BACKWARD = int(Kind.BATCH), int(Kind.SPAN), int(Kind.STEP), int(Kind.BACKWARD)
ITERATOR, FORWARD, GUEST = int(Kind.ITERATOR), int(Kind.FORWARD), int(Kind.GUEST)
RENDEZVOUS, GAP, PICK, PIN = int(Kind.RENDEZVOUS), int(Kind.GAP), int(Kind.PICK), int(Kind.PIN)
MEMORY, OOM, DELAY = int(Kind.MEMORY), int(Kind.OOM), int(Kind.DELAY)
SEGMENT, ENVIRONMENT = int(Kind.SEGMENT), int(Kind.ENVIRONMENT)
QUIET = frozenset({SPAN, PIN})  # what says nothing of what the training did since
CLOCKED = frozenset({GAP, int(Kind.DEVICE), SEGMENT, int(Kind.CROSSED)})
DIFFERENT = frozenset({"distinct", "held"})  # notes on the files that batches are made of
MADE = frozenset({int(Kind.FETCH), int(Kind.READS), int(Kind.LOCKED), PICK})
PLACES = 1000  # different places of spans kept
PAUSES = frozenset({*STOPPING, "sync", "copy.h2d", "collective"})
FSYNC = frozenset({"os.fsync", "os.fdatasync"})
FILES = frozenset({"numpy.save", "numpy.savez", "numpy.savez_compressed", "pickle.dump"})  # of models, and of anything
JOINED = frozenset({int(SpanCode.LOGGING), int(SpanCode.REPORTING)})  # records of these stand for several calls
SITE_BITS, SITE = 16, 0xFFFF  # of field d in such records
WRITES = frozenset({"checkpoint", "logging", "reporting"})
FEW = 2  # readings, one a second, in each half of a loop that ended early: enough to tell what grew, not what will
STILL, STILL_ROUNDS = 10.0, 10  # s, and mean rounds of the loop: who stood for longer before it was ended hung
JOIN = 100_000  # ns; writes of one kind that follow each other so closely are one pause, with the work to make them


@dataclass(slots=True)
class _Site:
    where: str
    what: str


@dataclass(slots=True)
class _Iterator:
    """An iterator that is alive: which loader it serves and where it stands."""

    loader: int
    trains: bool  # it was made with gradients on
    moved: int  # when it was last made, reset or advanced, ns
    returned: int = 0  # t1 of its last next(), 0 before the first
    stood: int = 0  # ns that the training was held up since then, until batches of any loader lay ready
    pauses: dict[str, int] = field(default_factory=dict)  # ns per span since then


class TrainingProcess:
    """One process, from its first record on. `trains` says whether it ever iterated or stepped."""

    def __init__(self, guest: Guest, started: int, stops: Stops) -> None:
        self.guest = guest
        self.started = started
        self.stops = stops
        self._held: list[Record] = []  # of a process that stands still: when it went on is not known yet
        self.ledger, self.missed = Ledger(started), Missed()
        self.open: Open | None = None
        self.trains = False
        self._intervals = Intervals()
        # ns of the first backward pass (of a step only the end is told, and one of LBFGS has many passes), and of when
        # the last batch was given, 0 where none was left, and the last pass ended, 0 while one goes on
        self._first_pass = self._given = self._pass_ended = 0
        self.rank: int | None = None
        self._introduced = Introduced()
        self._shards = False  # a dataset in this very process asked for its worker
        self._draws: set[str] | None = None  # whose random numbers samples drew that were made in this very process
        self._pauses_draw: dict[str, Drawn] = {}
        self._filing: Filing | None = None  # of a file that batches made in this very process opened
        self._varieties = Varieties()  # likewise: of which files
        self._copies = Copies()
        self._allocations = Allocations()
        self._settling = Settling()
        self._precision = Precision()
        self.local_rank: int | None = None
        self.world_size: int | None = None
        self.meetings, self._rollouts, self._acted = Meetings(), Rollouts(), Acted()
        self._sites: dict[int, _Site] = {}
        self._places: dict[Key, list[int]] = {}  # calls, ns, ns of waits inside, calls that made what is trained on
        self._loaders: dict[int, LoaderState] = {}
        self._lines: dict[str, Companions] = {}  # where loaders were built
        self._iterators: dict[int, _Iterator] = {}
        self._made: list[Record] = []  # FETCH, READS and PICK records of this process; their BATCH comes after them
        self._folders: dict[str, str] = {}  # device of files that batches are made of, to the folder of one
        self._of: dict[int, int] = {}  # iterator to loader, for workers' records that come late
        self._loop_began = 0
        self._loop_end = 0
        self._backlog = Backlog()
        self._clocked = Clocked()
        self.learns = False  # it made an optimizer's step, or a backward pass
        self._infers = False  # what is taken for its loop are batches of evaluations, until something else comes
        self._rounds, self._slowed = Rounds(), Slowing()  # the latter of steps, where there is no loader
        self._gaps, self._works = deque[float](maxlen=GAPS), deque[float](maxlen=GAPS)
        self._last_span = ""
        self._last_end = 0  # t1 of the last span, 0 where anything else came after it
        self._stretches, self._passes = Stretches(), Passes()
        self._afters: deque[float] = deque(maxlen=FORWARDS)
        # ns: when the last training batch was asked for and gotten, and when the one before it was gotten
        self._asked = self._got = self._gotten_at = 0
        self._stepped_before = 0  # when the last step before that next() was over, ns
        self.costs: deque[tuple[float, float]] = deque(maxlen=FORWARDS)  # s that the guest took of sampled batches and
        #                                                                  their steps, and s for sampling them beside
        self.sampled = 0
        self.trouble = Trouble()
        self._before: dict[str, int] = {}  # the ledger's inclusive times when the loop began
        self._latest: dict[str, int] = {}  # and when the latest training batch or step ended

    def note(self, fields: dict[str, Json]) -> None:
        """Take what the guest said once."""
        self._backlog.note(fields)
        kind = fields.get("n")
        if kind == "loader":
            line = self._lines.setdefault(str(fields.get("where")), Companions())
            # a recorder that was killed and restarted reads every note again: its loader is known by then
            self._loaders.setdefault(int(str(fields["id"])), LoaderState(fields, line))
        elif kind in {"pipeline", "pinned"}:
            self._of_loader(fields)
        elif kind == "site":
            self._sites[int(str(fields["id"]))] = _Site(str(fields.get("where", "")), str(fields.get("what", "")))
        elif kind == "lost":
            self.missed.take(fields)
        elif kind == "process":
            self._introduced.take(fields)
            if fields.get("rank") is not None:
                self.rank = maybe(fields["rank"])
                self.local_rank = maybe(fields.get("local_rank"))
                self.world_size = maybe(fields.get("world_size"))
        elif kind == "precision":
            self._precision = precise(self._precision, fields)
        elif kind in TROUBLES:
            self.trouble.take(fields)
            if kind == "card":
                self._allocations.card(fields)
        else:
            self._made_here(fields)

    def _made_here(self, fields: dict[str, Json]) -> None:
        """Take what datasets do where their samples are made in this very process, and what pauses draw there."""
        kind, drawn = fields.get("n"), fields.get("of")
        if kind == "reads":
            self._files(fields)
        elif kind == "files":
            self._filing = filing(fields)
        elif kind in DIFFERENT:
            self._varieties.take(fields)
        elif kind == "shards":
            self._shards = True
        elif kind == "drew":
            self._pauses_draw[SPAN_NAMES.get(int(str(fields.get("span"))), "")] = _drawn(fields)
        elif kind == "draws" and fields.get("inline"):
            self._draws = (self._draws or set()) | (set(map(str, drawn)) if isinstance(drawn, list) else set())

    def _of_loader(self, fields: dict[str, Json]) -> None:
        """Take what is said of one loader beside its settings."""
        loader = self._loaders.get(int(str(fields["id"])))
        if loader is None:
            return
        if fields["n"] == "pinned":
            loader.consists(fields)
        elif loader.pipeline is not None:
            loader.pipeline.told(fields)

    def take(self, record: Record) -> None:
        """Take one record of the training process itself."""
        if self.open is not None and record.t0 == self.open.t0 and record.kind == self.open.kind:
            self.open = self.open._replace(kind=0, t0=0)  # it is over: that record is it
        if self.stops.began:
            self._held.append(record)
        else:
            self._take(self.stops.own(record))

    def go_on(self) -> None:
        """Take what came while it was not known when a stop ended."""
        held, self._held = self._held, []
        for record in held:
            self._take(self.stops.own(record))

    def _take(self, record: Record) -> None:
        kind = record.kind
        self.missed.heard += 1
        if self._allocations.ran:
            self._allocations.heard(record)
        if kind not in QUIET:
            self._last_end = 0
        if kind == BATCH:
            self._batch(record)
        elif kind == STEP:
            self._step(record)
            self._looped(record)
            self.meetings.step(record)
        elif kind == BACKWARD:
            self._backward(record)
        elif kind == DELAY:
            self._held_up(record)
        # 256 batches made in the training process that wait for the next() they belong to
        elif kind in MADE and len(self._made) < 256:
            self._made.append(record)
        elif kind == SPAN:
            self._span(record)
        elif kind == ITERATOR:
            self._iterator(record)
        else:
            self._measured(record)

    def _step(self, record: Record) -> None:
        """Take the end of an optimizer's step."""
        self._rollouts.trained(record.t1)
        self._passes.stepped(record.t1)
        self._acted.learnt(record.t1)
        if record.t1 <= self._asked:  # a guest tells it after the batch that was asked for next
            self._stepped_before = record.t1
        if not self._rounds.by_batches:
            if self._intervals.open:
                self._intervals.round(record.t1, self._rounds.steps)
            if record.a == 1:
                self._slowed.came(record.t1)
        self._stretches.stepped(record.t1, self.ledger.covered)
        self._rounds.step(record.t1, record.a)
        self.learns = True
        self._begin(min(record.t0, self._first_pass or record.t0))

    def _measured(self, record: Record) -> None:
        """Take what clocks said of a step: of pinning, the guest's, the device's; of meetings and rollouts."""
        if record.kind == PIN:
            self._pinned(record)
        elif record.kind == FORWARD:
            self._stretches.forward(record, self.ledger.covered(record.t0, record.t1))
        elif record.kind in CLOCKED:
            self._on_device(record)
        elif record.kind == ENVIRONMENT:
            self._acted.take(record, self.ledger)
        elif record.kind == GUEST:
            self._sampled(record)
        elif record.kind == RENDEZVOUS:
            self.meetings.reduced(record)
        elif record.kind == MEMORY:
            self._allocations.reading(record, self._done)
        elif record.kind == OOM:
            self._allocations.ran_out(record, self._done)

    def _on_device(self, record: Record) -> None:
        """Take what the device's clock said of a step."""
        self._clocked.take(record)
        if record.kind == SEGMENT and record.code & SegmentCode.HELD:
            self.disturbed(record.t0)
            self.meetings.held(record.t0)
        if record.kind == GAP:
            self.meetings.idled(record)
            if self._clocked.settles:
                self._backlog.settled(record.t1)
            if self._clocked.warm:
                self._gaps.append(record.a / NS)
                self._works.append(record.b / NS)
            self._backlog.take(record)

    def _backward(self, record: Record) -> None:
        """Take a backward pass: where no optimizer makes steps and no loader gives batches, it is what repeats."""
        self._stretches.backward(record)
        self.meetings.backward(record)
        self.learns = True
        self._acted.passed(record)
        self._first_pass = self._first_pass or record.t0
        if self._rounds.backward():
            self._begin(self._first_pass)
            self._looped(record)

    @property
    def steps(self) -> int:
        """Return how many steps all of its optimizers have made."""
        return self._rounds.steps

    @property
    def by_passes(self) -> bool:
        """Return whether its loop is told by backward passes alone: somebody updates the weights by hand."""
        return self._rounds.by_passes

    def _pinned(self, record: Record) -> None:
        """Take a batch that the thread which pins them has handed on."""
        loader = self._loaders.get(self._of.get(record.a, -1))
        if loader is not None:
            loader.pinned(record)

    def _sampled(self, record: Record) -> None:
        """Take what the clocks said of a sampled batch and of the step after it."""
        self.sampled += 1
        self.costs.append((record.a / NS, record.c / NS))
        loader = self._loaders.get(self._of.get(record.d, -1))
        if loader is not None:
            loader.sampled(record.e, record.b)

    @property
    def looping(self) -> bool:
        """Return whether its loop has begun."""
        return bool(self._loop_began)

    @property
    def looped(self) -> tuple[int, int]:
        """Return when its loop began, and up to when it is known to have gone on: ns of running time."""
        return self._loop_began, self._loop_end

    @property
    def batches(self) -> int:
        """Return how many batches its loaders gave, those of evaluations included."""
        return sum(state.batches for state in self._loaders.values())

    @property
    def _done(self) -> int:
        """Return how many rounds of its loop have begun; batches of evaluations are none."""
        found = (max(0, state.batches - state.in_evaluation) for state in self._loaders.values())  # ends count there
        return sum(found) or self.steps

    @property
    def _timed(self) -> int:
        """Return how many steps the device's clock could have timed: from batch to batch, else from step to step."""
        return self._done if self._rounds.by_batches else self._rounds.count

    def gpu(self, indices: Mapping[str, str]) -> str:
        """Return NVML's number of the device that it uses, empty where it uses several, or none is known."""
        return self._allocations.only(indices)

    def out_of_memory(self, indices: Mapping[str, str]) -> OutOfMemory | None:
        """Return the last time that a device's memory ran out, None where it never did. `indices`: NVML's, by UUID."""
        places = {number: site.where for number, site in self._sites.items()}
        return self._allocations.out_of_memory(indices, places, pid=self.guest.pid, rank=self.rank)

    def waited(self, t: int) -> int:
        """Return the ns that it has waited for batches until `t` (ns), in a next() under way as well."""
        waited = self.ledger.inclusive.get("loader.wait", 0)
        opened = self.open
        if opened is not None and opened.kind == Kind.BATCH and opened.t0 >= self._loop_end and opened.t0:
            waited += max(0, t - opened.t0)
        return waited

    def _begin(self, t0: int) -> None:
        """End the start-up at the first sign of training."""
        if not self.trains:
            self.trains = True
            self.ledger.span("startup", self.started, max(self.started, t0))

    def _looped(self, record: Record, *, infers: bool = False) -> None:
        """Learn that the loop was at work: what the ledger has gathered so far lies inside it.

        What was taken for a loop that `infers` was an evaluation if a training comes after it.
        """
        if not self._loop_began or (self._infers and not infers):
            self._loop_began = record.t0
            self._before = dict(self.ledger.inclusive)
        self._infers = infers
        self._latest = dict(self.ledger.inclusive)
        self._loop_end = max(self._loop_end, record.t1)
        paused = sum(self._latest.get(name, 0) for name in (*STOPPING, "loader.start"))
        self._backlog.looped(record.t1, self._over(record), paused)

    def _over(self, record: Record) -> int | None:
        """Return how many steps are over with a batch, or a step where no loader gives any; None of what ends none."""
        if not self._rounds.by_batches:
            return self._rounds.count
        if record.kind != BATCH:
            return None
        return self._rounds.came(ends=bool(record.code & BatchCode.END))

    def _iterator(self, record: Record) -> None:
        loader = self._loaders.get(record.b)
        if loader is None:
            return
        self._begin(record.t0)
        self._iterators[record.a] = _Iterator(record.b, bool(record.e), record.t1)
        self._of[record.a] = record.b
        # 64 iterators of one process that are listened to: a loop that never ends one makes a new one each epoch
        if len(self._iterators) > 64:
            self._iterators.pop(min(self._iterators, key=lambda number: self._iterators[number].moved))
        if len(self._of) > LATE:
            self._of.pop(next(iter(self._of)))
        loader.epoch(record, (record.t0 - self.started) / NS, _picking(record, self._made))
        if record.e and not loader.evaluates:
            self._passes.began(record.t0)
        self._fed(self._rollouts.iterator(record))

    def _batch(self, record: Record) -> None:
        self._begin(record.t0)
        iterator = self._iterators.get(record.a) or self._overheard(record)
        made, self._made = self._made, []
        for fetch in made:
            if fetch.t0 >= record.t0 and fetch.kind != PICK:  # an older one is of a next() that was never told
                self.fetched(record.a, fetch, -1)
        apart = bool(record.code & BatchCode.APART)  # the training does not stand still for it
        if not apart:
            self._given, self._pass_ended = (0, record.t1) if record.code & BatchCode.END else (record.t1, 0)
            if iterator is not None and not self._loaders[iterator.loader].evaluates:
                self._worked_on(record)
            self.meetings.waited(record)
            self.ledger.span("loader.wait", record.t0, record.t1, None if iterator is None else iterator.loader)
        if iterator is None:
            return
        loader = self._loaders[iterator.loader]
        gap = record.t0 - iterator.returned - iterator.stood if iterator.returned else 0
        loader.batch(record, gap, iterator.pauses, _picking(record, made))
        if loader.num_workers:
            self._settling.take(record.t1)
        iterator.returned = iterator.moved = record.t1
        iterator.stood, iterator.pauses = 0, {}
        if not apart and iterator.trains and not loader.evaluates:
            self._between(self._passes.ended(record.t1) if record.code & BatchCode.END else self._passes.batch())
        if not apart:
            self._advanced(loader, record)
        if record.code & BatchCode.END:
            self._iterators.pop(record.a, None)

    def _overheard(self, record: Record) -> _Iterator | None:
        """Return the iterator of a batch whose making was lost: that of the only loader there is, else None."""
        if not self.missed.lost or record.a in self._of or len(self._loaders) != 1:
            return None
        (loader,) = self._loaders
        self._of[record.a] = loader
        return self._iterators.setdefault(record.a, _Iterator(loader, trains=True, moved=record.t1))

    def _held_up(self, record: Record) -> None:
        """Take that it was held up on purpose, which is no part of a step: until batches lay ready, or for a round.

        Or that all batches but one were: that one was waited for as ever.
        """
        if record.code == DelayCode.LONE:
            if record.a in self._iterators:
                self._loaders[self._iterators[record.a].loader].made_alone(record)
            self.disturbed(record.t0)
            return
        for iterator in self._iterators.values():
            if 0 < iterator.returned <= record.t0:
                iterator.stood += record.t1 - record.t0
        loader = self._loaders.get(self._iterators[record.a].loader) if record.a in self._iterators else None
        if record.code == DelayCode.SLOWS:
            (self._slowed if loader is None else loader.slowed).slowed(record)
            return
        self.ledger.span("loader.wait", record.t0, record.t1)
        if loader is not None:
            loader.stood(record)

    def disturbed(self, t: int) -> None:
        """Take that at `t` (ns) something else was tried, here or in another rank: the rounds around say nothing."""
        for slowed in self._every_slowed:
            slowed.disturbed(t)

    @property
    def _every_slowed(self) -> list[Slowing]:
        return [self._slowed, *(state.slowed for state in self._loaders.values())]

    def _worked_on(self, record: Record) -> None:
        """Take the time from the last optimizer step to the next() of a training batch, less what spans explain of it.

        A next() that no step came before, as in the accumulation of gradients, has none of it. As steps are told after
        it, it is the next() before this one that is taken here.
        """
        if self._asked and self.steps > WARM_UP:
            stepped, asked = self._stepped_before, self._asked
            worked = asked - stepped - self._explained(stepped, asked) if stepped > self._gotten_at else 0
            if not self._passes.between(stepped, asked):
                self._afters.append(max(0, worked) / NS)
        self._asked, self._gotten_at, self._got = record.t0, self._got, record.t1
        self._stepped_before = self._rounds.last

    def _explained(self, t0: int, t1: int) -> int:
        """Return the ns between two moments that are not long ago in which spans lie, or it was held up."""
        held = self._slowed.within(t0, t1) if self._slowed.count else 0
        for loader in self._loaders.values():
            if loader.slowed.count:
                held += loader.slowed.within(t0, t1)
        return self.ledger.covered(t0, t1) + held

    def _advanced(self, loader: LoaderState, record: Record) -> None:
        """Learn what a batch that the training waited for says of its loop: one of an evaluation nothing, as a rule."""
        if not loader.evaluates:
            if self._intervals.open:
                self._intervals.round(record.t1, self._done)
            self._rounds.by_batches = True  # it waited for one that was no evaluation's
            self._rollouts.trained(record.t1)
            self._looped(record)
        elif not self.learns and (self._infers or not self._loop_began):
            self._looped(record, infers=True)

    def _between(self, gap: PassGap | None) -> None:
        """Count what lay between two passes, and is no span's."""
        if gap is not None:
            claim = self.ledger.span("between", gap.t0, gap.t1)
            self._passes.owns.append(claim.self_ns["between"] / NS)

    def knows(self, iterator: int) -> bool:
        """Return whether it is known which loader an iterator is of."""
        return iterator in self._of

    def worker_note(self, iterator: int, fields: dict[str, Json]) -> None:
        """Take what a worker of one of its iterators said once."""
        loader = self._loaders.get(self._of.get(iterator, -1))
        if loader is not None and fields.get("n") == "worker":
            loader.worker_threads = maybe(fields.get("threads"))
        elif loader is not None and fields.get("n") == "shards":
            loader.shards = True
        elif loader is not None and fields.get("n") == "files":
            loader.filing = filing(fields)
        elif loader is not None and fields.get("n") in DIFFERENT:
            loader.varieties.take(fields)
        elif fields.get("n") == "reads":
            self._files(fields)

    def fetched(self, iterator: int, record: Record, worker: int) -> None:
        """Take a record of making batches: of this process (`worker` -1), or of a worker of its iterators."""
        loader = self._loaders.get(self._of.get(iterator, -1))
        if loader is None:
            return
        if record.kind == Kind.READS:
            loader.reads(record, iterator)
        elif record.kind == Kind.LOCKED:
            loader.locked(record)
        elif record.kind == DELAY:
            loader.delays.delayed(worker, record)
            loader.slowed.disturbed(record.t0)
        else:
            loader.fetch(record, iterator, worker)

    def _files(self, fields: dict[str, Json]) -> None:
        if len(self._folders) < DEVICES:
            self._folders.setdefault(str(fields.get("device")), str(fields.get("folder")))

    def _span(self, record: Record) -> None:
        name = SPAN_NAMES.get(record.code)
        if name is None:
            return
        if record.code == SpanCode.LOADER_START and record.c == 1:
            self._shut_down(record)
        site = self._sites.get(record.a)
        if record.e or self._prepares(site):  # of another thread than the training's, or none of its pauses
            return
        if site is not None and site.what in FSYNC and self._last_span == "checkpoint" and self._last_end:
            name = "checkpoint"  # syncing what was just saved is a part of saving it
        claim = self.ledger.span(name, self._since(name, record.t0), record.t1)
        self._last_span, self._last_end = name, record.t1
        if record.code == SpanCode.LOADER_START:
            return
        if record.code == SpanCode.EVALUATION:
            self._evaluated(claim)
        elif record.code == SpanCode.COLLECTIVE:
            self.meetings.called(record)
        self._pause(name, claim)
        self._places_of(name, site, record, claim)
        if record.code == SpanCode.EVALUATION:
            key = _key(name, site)
            fed = self._rollouts.evaluated(key, record.t1, own=bool(claim.batches))
            self._fed(key if fed else None)
        elif record.code == SpanCode.COPY_H2D and self._loop_began:  # before it a model is copied, once
            self._copies.take(record)

    @property
    def only_serves(self) -> bool:
        """Return whether it steps for others alone, as a parameter server does: it has no batches of its own."""
        return self._introduced.serves and not self._loaders

    def _prepares(self, site: _Site | None) -> bool:
        """Return whether what is saved at a place are data that are made ready: nothing trains yet."""
        return site is not None and site.what in FILES and not self.trains

    def _shut_down(self, record: Record) -> None:
        loader = self._loaders.get(self._of.get(record.d, -1))
        if loader is not None:
            loader.shutdown(record)

    def _since(self, name: str, t0: int) -> int:
        """Return when the pause began that goes on with a span at `t0` (ns): a burst of writes is one."""
        one = name in WRITES and name == self._last_span and self._last_end <= t0 <= self._last_end + JOIN
        return self._last_end if one else t0

    def _evaluated(self, claim: Claim) -> None:
        for loader_id, count in claim.batches.items():
            if loader_id in self._loaders:
                self._loaders[loader_id].in_evaluation += count
        for loader in self._loaders.values():
            loader.in_evaluation += loader.apart_between(claim.t0, claim.t1)

    def _pause(self, name: str, claim: Claim) -> None:
        """Tell every iterator that is between two batches what this span took from its step.

        The spans inside it have been told when they ended.
        """
        if name not in PAUSES:
            return
        for iterator in self._iterators.values():
            if iterator.returned and claim.t0 >= iterator.returned:
                iterator.pauses[name] = iterator.pauses.get(name, 0) + claim.fresh

    def _places_of(self, name: str, site: _Site | None, record: Record, claim: Claim) -> None:
        """Count a span at its place, and calls that were told with it at theirs."""
        if name == "sync":
            self._backlog.met(record.t1)
        if name in STOPPING and self._loop_began:
            self._backlog.paused(_key(name, site), record.t0, record.t1)
        ns, inside = record.t1 - record.t0, claim.self_ns.get("loader.wait", 0)
        if record.code not in JOINED:
            self._place(name, site, record.t0, 1, ns, inside)
            return
        self._place(name, site, record.t0, record.c or 1, max(0, ns - record.b), inside)  # a recording rounds
        if record.d:
            self._place(name, self._sites.get(record.d & SITE), record.t0, record.d >> SITE_BITS, record.b, 0)

    def _place(self, name: str, site: _Site | None, at: int, count: int, ns: int, inside: int) -> None:  # noqa: PLR0913, PLR0917 - the sums of an entry
        key = _key(name, site)
        self._intervals.paused(key, at)
        if key not in self._places and len(self._places) >= PLACES:
            return
        entry = self._places.setdefault(key, [0, 0, 0, 0])
        entry[0] += count
        entry[1] += ns
        entry[2] += inside

    def _inline(self, loader: Loader) -> Loader:
        """Return a loader without workers with what was told of batches that are made in this very process."""
        return replace(
            loader,
            shards=self._shards or loader.shards,
            draws=loader.draws if self._draws is None else "torch" in self._draws,
            random=loader.random if self._draws is None else bool(self._draws),
            variety=self._varieties.told,
            filing=self._filing or loader.filing,
        )

    def _used(self, own: str, together: str, host: HostMeans, ranks: int) -> float | None:
        """Return the mean cores that this process used, or wanted and had not; None where that was not measured.

        Where it was not read of each process by itself (one alone, or an older recording): its part of all `together`.
        """
        of_itself, of_all = host.mean(own, str(self.guest.pid)), host.mean(together)
        if of_itself is not None and ranks > 1:
            return of_itself
        return None if of_all is None else of_all / ranks

    def _fed(self, key: Key | None) -> None:
        """Count an evaluation whose loader was built after it."""
        if key in self._places:
            self._places[key][3] += 1

    def features(  # noqa: PLR0913 - what the run knows of it
        self,
        until: int,
        host: HostMeans,
        stacks: Stacks,
        *,
        ranks: int,
        learns: bool = True,
        ended_by_signal: bool = False,
    ) -> Process:
        """Return what is known of this process at `until` (ns), or at its end.

        Where no process of the run `learns`, its loop is the one in which a model is only asked.
        """
        self.go_on()
        last = min(until, self.guest.ended) if self.guest.ended else until
        end = max(self.stops.running(last), self.ledger.latest)  # a rank may outlive its launcher
        ledger, inside = self._closed(end, killed=ended_by_signal)
        totals, inclusive, in_loop = ledger.totals(end), _seconds(ledger.inclusive), self._in_loop()
        hidden = min(self.meetings.out_of_sight, totals["step"])  # inside backward passes, which no span covers
        for spans in (totals, inclusive, in_loop) if hidden else ():
            spans["collective"] = spans.get("collective", 0.0) + hidden
        totals["step"] -= hidden
        timed = self._device_step
        self._awaited(totals, inclusive, in_loop)
        self._queued(totals, inclusive, in_loop)
        for name in in_loop.keys() & STOPPING:  # what lies in them is told by words of its own
            in_loop[name] = max(0.0, in_loop[name] - self._backlog.stood_in(name) / NS)
        loop, behind = max(0, self._loop_end - self._loop_began) / NS, self._backlog.left(self._loop_end) / NS
        stood = 0.0
        if self.guest.ended and (rest := self._teardown(ledger, end, loop, behind)) > 0:
            rest = min(rest, totals["step"])
            still = max(STILL, STILL_ROUNDS * loop / max(1, self._done))
            stood = rest if ended_by_signal and self._in_its_loop and rest >= still else 0.0
            if not stood:
                totals["teardown"] = rest
                totals["step"] -= rest
        if ended_by_signal and self.guest.ended:
            stood = max(stood, self._stuck(end, max(STILL, STILL_ROUNDS * loop / max(1, self._done))))
        cores, queued = (
            self._used("main.cpu", "cpu.main", host, ranks),
            self._used("main.queued", "cpu.queued.main", host, ranks),
        )
        frames, samples = stacks.of(self.guest.pid)
        after = stacks.afterwork(self.guest.pid, loaderless=not self._rounds.by_batches)
        python = stacks.interpreted(self.guest.pid)
        between = {line.where for line in after.outside}  # a queue that is asked there is no step's
        waits = sum(line.share for line in python.gets if line.where not in between)
        margins = _at_queues(waits, python.stacks, loop, totals, inclusive, in_loop)
        loaders = tuple(
            state.features(
                cpu=cores,
                queued=queued,
                memory=host.last("memory.worker"),  # as what is left of the machine's: both grow
                growth=host.trend("memory.worker", since=state.settling.since),
                loop=loop,
            )
            for state in self._loaders.values()
            if state.batches or state.made
        )
        if inside:  # an evaluation goes on
            states = [(number, state) for number, state in self._loaders.items() if state.batches or state.made]
            loaders = tuple(
                replace(loader, training=not state.evaluates_with(inside.get(number, 0)))
                for loader, (number, state) in zip(loaders, states, strict=True)
            )
        loaders = tuple(loader if loader.num_workers else self._inline(loader) for loader in loaders)
        infers = not learns and bool(loaders) and not any(loader.training for loader in loaders)
        if infers:
            loaders = tuple(replace(loader, training=True) for loader in loaders)
            totals["step"] += totals.pop("evaluation", 0.0)
            for spans in (inclusive, in_loop):
                spans.pop("evaluation", None)
        elif self._infers:
            loop = behind = 0.0
        training = [loader for loader in loaders if loader.training]
        return Process(
            pid=self.guest.pid,
            rank=self.rank,
            local_rank=self.local_rank,
            world_size=self.world_size,
            meetings=self.meetings.told,
            rounds=self.meetings.rounds,
            wall=max(0, end - self.started) / NS,
            stopped=self.stops.before(last) / NS,
            ledger=totals,
            inclusive=inclusive,
            in_loop=in_loop,
            loop=loop,
            behind=behind,
            held_back=self._held_back(),
            pace=self._pace(),
            batches=sum(loader.batches for loader in training),
            samples=sum(loader.samples for loader in training),
            optimizer_steps=self._rounds.count,
            loaders=loaders,
            places=tuple(
                Place(
                    span=n,
                    where=w,
                    what=x,
                    count=c,
                    seconds=max(0, s - self._backlog.stood((n, w, x))) / NS,
                    waits_inside=i / NS,
                    feeds=f,
                    every=self._intervals.of((n, w, x)),
                )
                for (n, w, x), (c, s, i, f) in sorted(self._places.items(), key=lambda item: -item[1][1])
                if not (infers and n == "evaluation")
            ),
            draws=dict(self._pauses_draw),
            frames=frames,
            stack_samples=samples,
            letting_go=stacks.letting_go(self.guest.pid),
            sampler=stacks.picking(self.guest.pid),
            before_forward=self._stretches.before,
            after_step=tuple(self._afters),
            afterwork=after.lines,
            loop_stacks=after.stacks,
            stepping=after.stepping,
            plain=after.plain,
            interpreted=python.lines,
            held_looks=python.looks,
            in_torch=python.torch,
            queues=python.gets,
            aside=python.aside,
            traces=python.traces,
            looked=python.stacks,
            beats=tuple(self._rounds.beats[WARM_UP:]),
            between=tuple(self._passes.owns),
            outside=after.outside,
            librarys=after.librarys,
            on_weights=self._stretches.on_weights,
            on_device=self._stretches.on_device,
            backward=self._stretches.inside_backward,
            optimizing=self._stretches.optimizing,
            batch_gotten=self._stretches.gotten,
            cpu=cores,
            queued=queued,
            torch=self._introduced.torch,
            native=self._introduced.native,
            built=self._introduced.built,
            precision=self._precision,
            folders=dict(self._folders),
            copies=self._copies.features(self._site),
            memory=host.trend("memory.main", str(self.guest.pid), self._settling.since),
            fillers=int(host.last("main.fillers", str(self.guest.pid)) or 0),
            mapped=host.trend("memory.mapped", str(self.guest.pid), self._settling.since),
            stood=stood,
            rising=host.trend("memory.main", str(self.guest.pid), least=FEW),
            allocators=self._allocations.features(host.indices, self._loop_began, self._loop_end),
            gaps=tuple(self._gaps),
            works=tuple(self._works),
            device_step=timed,
            margins=margins,
            acting=self._acted.told(self._site(self._acted.site)[0]),
        )

    def _held_back(self) -> HeldBack:
        """Return what was held back in this process and its workers, to see what that does."""
        holds, device = self._clocked.held
        each = [state.delays.held for state in self._loaders.values()]
        filled = [state.filled for state in self._loaders.values()]
        lone = [state.lone for state in self._loaders.values()]
        slowed = self._every_slowed
        return HeldBack(
            holds=holds,
            device=device,
            delays=sum(count for count, _ in each),
            workers=sum(s for _, s in each) + sum(one.idle for one in filled) + sum(one.idle for one in lone),
            fills=sum(one.count for one in filled),
            lone=sum(one.count for one in lone),
            slopes=sum(one.count for one in slowed),
            training=sum(one.seconds for one in slowed),
        )

    def _pace(self) -> Slope | None:
        """Return by how much its rounds got longer as its thread was slowed down: of the one loop that was most."""
        told = [slope for slowed in self._every_slowed if (slope := slowed.told) is not None]
        return max(told, key=lambda slope: slope.count, default=None)

    def _stuck(self, end: int, least: float) -> float:
        """Return for how many s, of `least` and more, a step of an environment had not returned at the `end` (ns)."""
        if self.open is None or self.open.kind != ENVIRONMENT or not self.open.t0:
            return 0.0
        stood = (end - self.stops.running(self.open.t0)) / NS
        return stood if stood >= least else 0.0

    @property
    def _device_step(self) -> DeviceStep | None:
        """Return what the device's clock said of a step, and how long one takes that was not timed."""
        timed, mean = self._clocked.told, self._backlog.mean_step
        return timed if timed is None or mean is None else replace(timed, mean=mean[0] / NS, paused=mean[1] / NS)

    @property
    def _in_its_loop(self) -> bool:
        """Return whether it was in the middle of a pass over its data; without a loader, nobody knows when one ends."""
        return not self._loaders or any(loader.under_way for loader in self._loaders.values())

    def _teardown(self, ledger: Ledger, end: int, loop: float, behind: float) -> float:
        """Return the s from the last batch, step or span, and what was made of it, to the process's `end` (ns).

        What becomes of a last batch that no step follows is not told: a mean round of the loop (s) is left for it.
        """
        if not self._loop_end:
            return 0.0
        rest = (end - max(self._loop_end, ledger.latest)) / NS - behind
        return rest - loop / max(1, self._done) if self._given > self._rounds.last else rest

    def _awaited(self, *each: dict[str, float]) -> None:
        """Count as waiting for the device what copies stood before they could begin: that is no copying."""
        timed = self._clocked.told
        stood_each = timed.copy_waits * self._timed if timed is not None else 0.0
        for spans in each:
            copied = spans.get("copy.h2d", 0.0)
            if stood := min(copied, stood_each):
                spans["copy.h2d"] = copied - stood
                spans["sync"] = spans.get("sync", 0.0) + stood

    def _queued(self, totals: dict[str, float], *others: dict[str, float]) -> None:
        """Count as waiting for the device what the step stood in launches, its queue being full: that is no launching.

        Of steps that were never timed it is taken to be as long as of the others.
        """
        timed = self._clocked.told
        if timed is None or not timed.launch_waits:
            return
        stood = min(totals["step"], timed.launch_waits * self._timed)
        totals["step"] -= stood
        for spans in (totals, *others):
            spans["launch.wait"] = stood

    def _site(self, number: int) -> tuple[str, str]:
        site = self._sites.get(number)
        return (site.where, site.what) if site else ("", "")

    def _in_loop(self) -> dict[str, float]:
        return {name: (ns - self._before.get(name, 0)) / NS for name, ns in self._latest.items()}

    def _closed(self, end: int, *, killed: bool = False) -> tuple[Ledger, dict[int, int]]:
        """Return the ledger with what the process was in the middle of, when it was last seen, ended at `end`.

        And of an evaluation under way its batches by loader: as nothing came after it that would have ended it, it was
        over with its last batch where the process has ended since; one that was `killed` may have been in the middle
        of it. Nothing is changed: the run may go on.
        """
        opened, inside = self.open, dict[int, int]()
        if opened is None:
            return self.ledger, inside
        ledger = self.ledger.copy()
        opened = opened._replace(t0=self.stops.running(opened.t0), since=self.stops.running(opened.since))
        if opened.t0 and opened.kind == Kind.BATCH and opened.t0 >= self._loop_end:
            ledger.span("loader.wait", opened.t0, end)
        elif opened.t0 and opened.kind == ENVIRONMENT:
            ledger.span(ENVIRONMENT_SPAN, opened.t0, end)
        elif opened.t0 and opened.kind == Kind.SPAN and opened.code in SPAN_NAMES:
            ledger.span(SPAN_NAMES[opened.code], opened.t0, end)
        if opened.since:
            last = self._pass_ended or (0 if killed else self._given)
            over = last if self.guest.ended and last > opened.since else end
            inside = ledger.span("evaluation", opened.since, over).batches
        return ledger, inside


def _drawn(fields: Mapping[str, Json]) -> Drawn:
    """Return what a note says of the random generators that a kind of pause moves."""
    of, shared = (
        frozenset(map(str, names)) if isinstance(names, list) else frozenset[str]()
        for names in (fields.get("of"), fields.get("shared"))
    )
    return Drawn(of=of, shared=shared, unsure=bool(fields.get("unsure")))


def _picking(record: Record, made: Sequence[Record]) -> int:
    """Return the ns of a next() in which the batch sampler was asked; what is older is of an iterator's start."""
    if not made:
        return 0
    picks = [x for x in made if x.kind == PICK and record.t0 <= x.t0 and x.t1 <= record.t1]
    return sum(pick.t1 - pick.t0 for pick in picks)


def _seconds(spans: Mapping[str, int]) -> dict[str, float]:
    return {name: ns / NS for name, ns in spans.items()}


def _at_queues(
    share: float, stacks: int, loop: float, totals: dict[str, float], *others: dict[str, float]
) -> dict[str, float]:
    """Count as waiting at a queue of the script's own the share of so many stacks, of a loop of so many s.

    Return how sure that is: ± a share of all time, with 95 %.
    """
    wall = sum(totals.values())
    if stacks < LEAST_LOOKS or not share or not wall:
        return {}
    waited = min(totals["step"], share * loop)
    totals["step"] -= waited
    for spans in (totals, *others):
        spans["queue.wait"] = waited
    margin = half_wilson(share, stacks) * loop / wall
    return {"queue.wait": margin, "step": margin}


def _key(span: str, site: _Site | None) -> Key:
    return span, site.where if site else "", site.what if site else ""
