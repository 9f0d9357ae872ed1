"""The part of the gatherer that listens to one DataLoader of one process: settings, batches, epochs."""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from gputune.core.events import STOPPING, BatchCode, FetchCode, IteratorCode, Record
from gputune.core.figures import mean
from gputune.core.sample import Json
from gputune.core.units import NS
from gputune.features import Epoch, Filing, Loader, Trend
from gputune.features.concurrent_loaders import Companions
from gputune.gathering.alone import Lone
from gputune.gathering.delays import Delays
from gputune.gathering.handover import Handed, Handovers
from gputune.gathering.in_flight import Fetches, Made
from gputune.gathering.pinning import Pinning
from gputune.gathering.pipeline import FRAMEWORKS, PipelineState
from gputune.gathering.ready_rounds import ReadyRounds
from gputune.gathering.settling import Settling
from gputune.gathering.slowing import Slowing
from gputune.gathering.storage import Pass, SampledReads, Varieties
from gputune.model.replay import TYPICAL_PREFETCH

BATCHES_KEPT = 2000  # batches kept for the model, the latest: more would not make a mean better
WARM_UP = 3  # first steps of a run left out: allocators, caches and autotuning settle in them
EPOCHS = 500  # epochs kept
UNFINISHED = 64  # epochs under way at once: more were left with a break


@dataclass(slots=True)
class _Pass:
    """One epoch under way."""

    iterator: int
    t0: int
    began: float
    start: int
    first_wait: int = 0
    others_first: int = 0
    shutdown: int = 0
    batches: int = 0
    end: int = 0
    complete: bool = False
    fresh: bool = False
    picking: int = 0  # ns of its making in which the batch sampler was asked
    read: Pass = field(default_factory=Pass)
    made: dict[int, int] = field(default_factory=dict)  # batches of it that each worker made

    def place(self, worker: int) -> tuple[int, ...]:
        """Return the place in which the next batch of a worker is delivered: workers take turns from the first on."""
        number = self.made[worker] = self.made.get(worker, -1) + 1
        return self.t0, number, worker


def maybe(value: Json) -> int | None:
    """Return a number of a note as an int, None for anything else."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


class LoaderState:
    """Streaming state of one loader. Series are bounded; the warm-up and each epoch's first batch stay out of them."""

    def __init__(self, settings: Mapping[str, Json], line: Companions | None = None) -> None:
        """`line`: the iterators of all loaders that are built where this one is."""
        self.settings = settings
        self.line = line or Companions()
        self.line.told(maybe(settings.get("beside")) or 0, maybe(settings.get("idle")) or 0)
        self.num_workers = maybe(settings.get("num_workers")) or 0
        self.batch_size = maybe(settings.get("batch_size"))
        self.worker_threads: int | None = None
        self.pipeline = PipelineState(settings) if str(settings.get("framework")) in FRAMEWORKS else None
        self.settling = Settling(self.num_workers)
        self.batches = self.samples = self.in_evaluation = 0
        self._without_gradients = 0
        self._gradients = True
        self._steps_seen = 0
        self._kept = self._rounds = 0  # rounds of which waits and steps are known, and ns of all of them
        self._waits: deque[float] = deque(maxlen=BATCHES_KEPT)
        self._steps: deque[float] = deque(maxlen=BATCHES_KEPT)
        self._picks: deque[float] = deque(maxlen=BATCHES_KEPT)
        self._step_cpus: deque[float] = deque(maxlen=BATCHES_KEPT)
        self._next_cpus: deque[float] = deque(maxlen=BATCHES_KEPT)
        self._pauses: dict[str, deque[float]] = {}
        self._fetches = Fetches(BATCHES_KEPT)
        self._fetched = 0
        self._made_by: dict[tuple[int, int], int] = {}  # batches that each worker of each iterator made
        self._passes: dict[int, _Pass] = {}
        self._epochs: deque[_Pass] = deque(maxlen=EPOCHS)
        self._reads = SampledReads()
        self._bytes = self._most_bytes = 0
        self._plain = self._on_device = False
        self._tensors = 0
        self._handed = Handed(*(deque[float](maxlen=BATCHES_KEPT) for _ in Handed._fields))
        self._early: deque[int] = deque(maxlen=BATCHES_KEPT)
        self._handovers: dict[int, Handovers] = {}
        self._pinning = Pinning()
        prefetch = maybe(settings.get("prefetch_factor")) or TYPICAL_PREFETCH
        self.delays = Delays(self.num_workers, prefetch)
        self.filled = ReadyRounds(self.num_workers, prefetch)
        self.lone = Lone()
        self.slowed = Slowing(self.num_workers * prefetch)
        self._types: dict[str, int] = {}
        self._shape: tuple[int, ...] = ()
        self.shards: bool | None = None
        self.filing: Filing | None = None
        self.varieties = Varieties()
        self._wait_total = 0
        self._apart = self._waited_apart = 0  # batches that another thread took, and ns that it waited for them
        self._taken_apart: deque[int] = deque(maxlen=BATCHES_KEPT)  # when the latest of them came
        self._first = 0
        self._last = 0

    @property
    def _ordered(self) -> bool:
        """Return whether batches come from workers in the order in which they were handed out."""
        return self.num_workers > 0 and self.settings.get("in_order") is not False

    @property
    def evaluates(self) -> bool:
        """Return whether most of its batches were taken for an evaluation."""
        taken, without = self.in_evaluation, self._without_gradients  # asked of every batch, several times
        return (taken if taken > without else without) * 2 > (self.batches or 1)

    def evaluates_with(self, more: int) -> bool:
        """Return the same with `more` batches of an evaluation that goes on."""
        return max(self.in_evaluation + more, self._without_gradients) * 2 > max(1, self.batches)

    @property
    def under_way(self) -> bool:
        """Return whether a pass for the training has begun and not come to its end."""
        latest = self._epochs[-1] if self._epochs else None
        return latest is not None and latest.batches > 0 and not latest.complete and not self.evaluates

    def epoch(self, record: Record, began: float, picking: int = 0) -> None:
        """Begin a pass: an iterator was made, or reset. In `picking` ns of that the batch sampler was asked."""
        self.line.begin(record.a, trains=bool(record.e))
        for done in [p for p in self._passes.values() if p.complete and p.iterator != record.a]:
            self._passes.pop(done.iterator)
        for iterator in [i for i in self._handovers if i != record.a and i not in self._passes]:
            del self._handovers[iterator]
        if record.a not in self._handovers and self._ordered:
            self._handovers[record.a] = Handovers(self.num_workers, self._handed)
        if record.a in self._handovers:
            self._handovers[record.a].begin(record.t0)
        self._pinning.begin(record.a)
        self.filled.begin()
        self.slowed.disturbed(record.t0)
        if len(self._passes) >= UNFINISHED:
            self._passes.pop(min(self._passes, key=lambda number: self._passes[number].end))
        fresh = bool(record.code & IteratorCode.NEW)
        self._passes.pop(record.a, None)
        start = max(0, record.t1 - record.t0 - picking)
        entry = _Pass(record.a, record.t0, began, start, end=record.t1, fresh=fresh, picking=picking)
        self._passes[record.a] = entry
        self._epochs.append(entry)
        self._gradients = bool(record.e)

    def batch(self, record: Record, gap: int, pauses: Mapping[str, int], picking: int = 0) -> None:
        """Take one next(). `gap` is the ns since the previous one returned, `pauses` the spans inside that gap.

        In `picking` ns of it the batch sampler said which samples come next: with workers, once a batch was there.
        """
        wait = record.t1 - record.t0
        here = self._passes.get(record.a)
        self._waited(record, wait, here)
        if record.code & (BatchCode.END | BatchCode.FAILED):
            return
        self.line.batch(record.a)
        self._count(record, picking)
        if here is None:
            return
        here.batches += 1
        if here.batches == 1:
            here.first_wait, here.picking = max(0, wait - picking), here.picking + picking
            return
        if record.code & BatchCode.APART:  # the gap between two of them is not a step
            return
        if here.batches <= self.num_workers:
            here.others_first += wait
        self._steps_seen += 1
        if self._steps_seen > WARM_UP and not record.code & BatchCode.UNTIMED:
            self._keep(wait, gap, pauses)
            paused = sum(ns for name, ns in pauses.items() if name in STOPPING)  # copies and reads are the step's
            self.filled.round(gap, wait - picking, paused)
            self.lone.batch(record, gap, paused)
            self._picks.append(picking / NS)
            self._early.append(record.d)

    def _waited(self, record: Record, wait: int, here: _Pass | None) -> None:
        """Count a next(), be it the last one of a pass, and whose wait it was."""
        self._first = self._first or record.t0
        self._last = record.t1
        if record.code & BatchCode.APART:
            self._waited_apart += wait
        else:
            self._wait_total += wait
        if here is not None:
            here.end = record.t1
            here.complete = here.complete or bool(record.code & BatchCode.END)

    def _count(self, record: Record, picking: int) -> None:
        """Count a batch."""
        if record.code & BatchCode.APART:
            self._apart += 1
            self._taken_apart.append(record.t1)
        elif self._pinning.seen:
            self._pinning.taken(record)
        elif record.a in self._handovers:
            self._handovers[record.a].taken(record.b, record.t0, record.t1 - picking, record.d)
        self.settling.take(record.t1)
        self.delays.came(record.t1)
        self.slowed.came(record.t1)
        self.batches += 1
        self.samples += record.c or self.batch_size or 0
        self._without_gradients += not self._gradients

    def _keep(self, wait: int, gap: int, pauses: Mapping[str, int]) -> None:
        self._kept += 1
        self._rounds += wait + gap
        self._waits.append(wait / NS)
        self._steps.append(gap / NS)
        for name in pauses.keys() - self._pauses.keys() if pauses else ():
            self._pauses[name] = deque([0.0] * (len(self._steps) - 1), maxlen=BATCHES_KEPT)
        for name, series in self._pauses.items():
            series.append(pauses.get(name, 0) / NS)

    def stood(self, record: Record) -> None:
        """Take that the training was held up until batches lay ready: it waited so much longer for the last one."""
        self._wait_total += record.t1 - record.t0
        self._rounds += record.t1 - record.t0
        if self._waits:
            self._waits[-1] += (record.t1 - record.t0) / NS
        self.filled.stood(record)
        self.delays.stood(record)
        self.slowed.disturbed(record.t0)

    def made_alone(self, record: Record) -> None:
        """Take that all other batches were withheld while one was made: other experiments tell nothing meanwhile."""
        self.lone.lone(record)
        self.delays.stood(record)
        self.slowed.disturbed(record.t0)

    def apart_between(self, t0: int, t1: int) -> int:
        """Return how many batches another thread than the training's took between two moments (ns)."""
        return sum(t0 <= t <= t1 for t in self._taken_apart)

    @property
    def apart(self) -> float | None:
        """Return the share of its time that another thread, which takes most of the batches, waits for them."""
        if self._apart * 2 <= self.batches or self._last <= self._first:
            return None
        return self._waited_apart / (self._last - self._first)

    @property
    def made(self) -> bool:
        """Return whether any batch was made, be it that none of them was ever taken."""
        return self._fetched > 0

    def sampled(self, used: int, getting: int) -> None:
        """Take the CPU time (ns) of the process in a sampled step that is over, whose BATCH record is yet to come.

        And that of the training thread in the next() before it.
        """
        if self._steps_seen >= WARM_UP:
            self._step_cpus.append(used / NS)
            self._next_cpus.append(getting / NS)

    def fetch(self, record: Record, iterator: int, worker: int) -> None:
        """Take how one batch was made. The first of each worker is warm-up: imports, opened files, cold caches."""
        if self.pipeline is not None and record.code & FetchCode.TFDATA:
            self.pipeline.made(record)
            return
        self._fetched += 1
        age = self._count_made(iterator, worker)
        mine = self._pass_of(iterator, record.t0)
        place: tuple[int, ...] = (record.t1,)
        if mine is not None:
            mine.read.fetch(record)
            place = mine.place(worker) if self._ordered else place
        if iterator in self._handovers:
            self._handovers[iterator].made(worker, record.t0, record.t1)
        if record.e:
            self._bytes = record.e
            self._most_bytes = max(self._most_bytes, record.e)
            self._plain = bool(record.code & FetchCode.PLAIN)
            self._on_device = bool(record.code & FetchCode.ON_GPU)
            self._tensors = max(self._tensors, record.code >> 8)
        if worker >= 0:
            self.lone.made(record, iterator)
            self._fetches.under_way(record.t0, record.t1)
        if self._fetched > (self.num_workers or 1):
            self.filled.made(record.t1 - record.t0)
            alone = worker < 0 or (self.worker_threads or 1) == 1
            self._fetches.append(Made(place, record, worker, age, alone))

    def _count_made(self, iterator: int, worker: int) -> int:
        """Count a batch of a worker, and return how many it had made before."""
        age = self._made_by.pop((iterator, worker), 0)
        self._made_by[iterator, worker] = age + 1
        if len(self._made_by) > 1024:  # workers whose batches are counted, the latest
            self._made_by.pop(next(iter(self._made_by)))
        return age

    def _by_worker(self) -> dict[int, int]:
        """Return how many batches the workers made, by their numbers."""
        made: Counter[int] = Counter()
        for (_iterator, worker), count in self._made_by.items():
            made[worker] += count
        return dict(made)

    def pinned(self, record: Record) -> None:
        """Take what the thread that pins batches took for one: it is handed over to that one, and not to next()."""
        free = self._pinning.take(record)
        if record.a in self._handovers:
            self._handovers[record.a].arrived(record.c, free, record.t0)

    def consists(self, fields: Mapping[str, Json]) -> None:
        """Take the types of tensors that the batches consist of."""
        types, shape = fields.get("types"), fields.get("shape")
        if isinstance(types, dict) and isinstance(shape, list):
            self._types = {str(name): int(size) for name, size in types.items() if isinstance(size, int)}
            self._shape = tuple(side for side in shape if isinstance(side, int))

    def locked(self, record: Record) -> None:
        """Take for how long making a sampled batch held locks, and waited for them; its READS comes next."""
        self._reads.locked(record)

    def reads(self, record: Record, iterator: int) -> None:
        """Take what one sampled batch opened and read."""
        self._reads.take(record)
        mine = self._pass_of(iterator, record.t0)
        if mine is not None:
            mine.read.reads(record)

    def _pass_of(self, iterator: int, t0: int) -> _Pass | None:
        """Return the pass that a batch was made for, which may be over: records of workers come late."""
        if self._epochs and (latest := self._epochs[-1]).iterator == iterator and latest.t0 <= t0:
            return latest
        recent = islice(reversed(self._epochs), 4)  # passes that records of a batch may still come for
        return next((p for p in recent if p.iterator == iterator and p.t0 <= t0), None)

    def shutdown(self, record: Record) -> None:
        """Take the ending of an iterator's workers."""
        here = self._passes.get(record.d)
        if here is not None:
            here.shutdown += record.t1 - record.t0
            here.end = max(here.end, record.t1)

    def features(
        self, *, cpu: float | None, queued: float | None, memory: float | None, growth: Trend | None, loop: float
    ) -> Loader:
        """Return what is known. `cpu` is the process's mean CPU use over the loop in cores, `queued` likewise."""
        settings = self.settings
        per_batch = loop / self.batches if self.batches else 0.0
        fetches, meanwhile, ahead = self._fetches.in_order(alone=self.num_workers < 2)
        made = fetches if self.num_workers == 0 else ()  # in the same process: their part is not the step's
        pins = self._pinning.pins(self._queue)
        beside = self._pinning.beside(pins)
        step_cpu = None
        if cpu is not None and self.batches:
            others = self._picking() + self._pinning.cpu(pins) + sum(f.cpu for f in made) / max(1, len(made))
            step_cpu = max(0.0, cpu * per_batch - others)
        step_queued = max(0.0, (queued or 0.0) * per_batch - sum(f.queued for f in made) / max(1, len(made)))
        return Loader(
            where=str(settings.get("where", "")),
            num_workers=self.num_workers,
            prefetch_factor=maybe(settings.get("prefetch_factor")),
            pin_memory=bool(settings.get("pin_memory")),
            persistent_workers=bool(settings.get("persistent_workers")),
            batch_size=self.batch_size,
            in_order=settings.get("in_order") is not False,
            iterable=bool(settings.get("iterable")),
            start_method=str(settings.get("start_method") or "fork"),
            dataset=str(settings.get("dataset") or ""),
            samples_in_dataset=maybe(settings.get("samples")),
            length=maybe(settings.get("length")),
            training=not self.evaluates,
            company=self.line.company,
            batches=self.batches,
            samples=self.samples,
            waits=tuple(self._waits),
            steps=tuple(self._steps),
            picks=tuple(self._picks) if any(self._picks) else (),
            pauses={name: tuple(series) for name, series in self._pauses.items()},
            step_cpu=step_cpu,
            step_cpus=tuple(max(0.0, used - beside) for used in self._step_cpus),
            next_cpus=tuple(self._next_cpus),
            step_queued=step_queued,
            fetches=fetches,
            in_flight=meanwhile,
            ahead=ahead,
            reads=tuple(self._reads.reads),
            filing=self.filing,
            variety=self.varieties.told,
            epochs=tuple(self._epoch(p) for p in self._epochs),
            batch_bytes=self._bytes or None,
            worker_threads=self.worker_threads,
            worker_memory=None if memory is None else int(memory),
            worker_growth=growth,
            batch_bytes_most=self._most_bytes or None,
            batch_shared=not self._plain,
            batch_on_device=self._on_device,
            batch_tensors=self._tensors or None,
            collate=str(settings.get("collate") or ""),
            pins=pins,
            fresh=self._pinning.fresh(self._queue, pins),
            gets=self._pinning.gets,
            types=dict(self._types),
            shape=self._shape,
            deliveries=tuple(self._handed.all),
            ready=tuple(self._handed.ready),
            hindered=tuple(self._handed.hindered),
            freed=tuple(self._handed.freed),
            after=tuple(self._handed.after),
            unhindered=tuple(self._handed.unhindered),
            smooth=tuple(self._handed.smooth),
            early=tuple(self._early),
            made_by=self._by_worker(),
            slope=self.delays.told,
            filled=tuple(self.filled.rounds),
            unfilled=tuple(self.filled.beside),
            mean_round=self._rounds / NS / self._kept if self._kept else None,
            alone=self.lone.told,
            own_kind=str(settings.get("own_kind") or ""),
            order=str(settings.get("order") or ""),
            shards=self._shards(),
            wait_total=self._wait_total / NS,
            apart=self.apart,
            pipeline=self.pipeline.features() if self.pipeline is not None else None,
            seconds=(self._last - self._first) / NS,
        )

    @property
    def _queue(self) -> int:
        """Return how many batches may be on their way, and in the hands of the training."""
        return self.num_workers * (maybe(self.settings.get("prefetch_factor")) or TYPICAL_PREFETCH) + WARM_UP

    def _picking(self) -> float:
        """Return the CPU s of the batch sampler in a next(): not what it queued for."""
        picking = mean(self._picks)
        return min(picking, mean(self._next_cpus)) if self._next_cpus else picking

    def _shards(self) -> bool | None:
        """Return whether the dataset asked which worker it is in. A `worker_init_fn` knows that without asking."""
        if self.shards or self.settings.get("worker_init") or not self._fetched:
            return self.shards
        return False

    @staticmethod
    def _epoch(entry: _Pass) -> Epoch:
        blocked, asked, stored = entry.read.per_batch()
        return Epoch(
            began=entry.began,
            start=entry.start / NS,
            picking=entry.picking / NS,
            first_wait=entry.first_wait / NS,
            others_first=entry.others_first / NS,
            fresh=entry.fresh,
            shutdown=entry.shutdown / NS,
            batches=entry.batches,
            seconds=max(0, entry.end - entry.t0) / NS,
            complete=entry.complete,
            blocked=blocked,
            asked=asked,
            stored=stored,
        )
