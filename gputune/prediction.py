"""What a change would buy, as a ratio of samples/s: the one place that turns features into predictions.

Loader settings are replayed (`replay.py`); pauses, such as checkpoints, are taken off the measured loop, down to what
the loader and the device can do at best. Every prediction is an interval: the model's own error at the present
settings, where the truth is known, widens it.

Over 300 lines because all predictions share one view of a loop and one error, and the advisors must not have their own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gputune import storage
from gputune.aftermath import aftermath, chill
from gputune.features import Features, Fetch, Loader, Process
from gputune.finding import Speedup
from gputune.replay import DELIVERY_S, Job, Work

PREPARED = 0.05  # of a batch's CPU time: reading, collating and passing it on is never free
START_S = 0.008  # s to fork one worker, when this run has started none (torch 2.13, Linux: 6 to 10 ms)
STOP_S = 0.003  # s to end one worker, likewise
SPAWN_S = 1.0  # s for a worker that imports torch anew (spawn, forkserver)
FIRST_S = 0.012  # s until a fresh worker's first batch is on its way, beyond making it
SPINNING = 15.0  # times: what teams of threads cost that each fit the CPUs, but not together: libgomp spins for long
THROTTLED = 4.0  # times: and teams of more threads than CPUs: then libgomp hardly spins
UNTANGLED = 1.1  # times: and what is sure even where they sleep instead
CROWD = 0.2  # cores used by others: below it, a queue at the CPUs is our own
MOST_CROWDED = 10.0  # threads a CPU: batches that take next to no CPU say little about the crowd
COPY_RATE = 6e9  # B/s at which a batch passes shared memory
LEAST_SAMPLED = 10  # steps of which the CPU time was read, below which their mean says nothing
LEAST_BATCHES = 20  # batches in the steady state below which nothing is predicted
ERROR = 0.05  # the model's own error, and what two runs of one training differ by (docs/evidence.md)
INLINE = 0.12  # times: work that has a process of its own may be so much faster than in turns with the step
CANDIDATES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
PREFETCHES = (2, 4, 8, 16)
FAR = 3.0  # a gain beyond which the interval widens no more: the error is one of the model, not of the distance
MOST = 100.0  # times as fast: beyond it, what was left out of the model sets the pace
TINY = 1e-9  # s; no loop is shorter
GOOD_ENOUGH = 1.03  # a smaller setting this close to the best one is the better advice
STRESS = 1.15  # blocked times for which a number of workers must still do: storage is slower at other hours
ROOM = 0.8  # of what is free in /dev/shm: batches vary in size, and the run's own are in there already
PERSIST_GAIN = 1.1  # workers that persist must be this much better before more workers are advised only with it
TYPICAL_PREFETCH = 2  # torch's own default


@dataclass(frozen=True, slots=True)
class Setting:
    """Loader settings under which the loop is replayed."""

    workers: int
    prefetch: int
    persistent: bool


@dataclass(frozen=True, slots=True)
class Loss:
    """What a loop loses to a kind of pause, in s: likely, and by how much that may be wrong."""

    seconds: float
    unsure: float


class Outlook:
    """The loop around one loader, ready to be asked what other settings would give."""

    def __init__(self, run: Features, process: Process, loader: Loader, job: Job | None = None) -> None:
        self.run = run
        self.process = process
        self.loader = loader
        self.job = job_of(run, process, loader) if job is None else job
        self._loops: dict[Setting, float] = {}
        self.now = Setting(loader.num_workers, loader.prefetch_factor or TYPICAL_PREFETCH, loader.persistent_workers)

    @property
    def known(self) -> bool:
        """Return whether enough was measured to predict anything."""
        loader = self.loader
        return len(loader.waits) >= LEAST_BATCHES and len(loader.fetches) >= LEAST_BATCHES and self.process.loop > 0

    @property
    def per_batch(self) -> float:
        """Return the measured steady time per batch, in s."""
        loader = self.loader
        return (sum(loader.waits) + sum(loader.steps)) / max(1, len(loader.waits))

    @property
    def waiting(self) -> float:
        """Return the share of the steady time per batch that is spent in next()."""
        total = sum(self.loader.waits) + sum(self.loader.steps)
        return sum(self.loader.waits) / total if total else 0.0

    @property
    def making(self) -> float:
        """Return the mean s that one batch takes to make, time spent queueing for a CPU left out."""
        tangle = entangled(self.run, self.loader)
        return _mean(f.cpu if tangle else f.cpu + f.blocked for f in self.loader.fetches)

    @property
    def making_cpu(self) -> float:
        """Return the mean CPU s that one batch takes to make."""
        return _mean(f.cpu for f in self.loader.fetches)

    @property
    def stepping(self) -> float:
        """Return the mean s from the return of a next() to the following one."""
        return _mean(self.loader.steps)

    @property
    def step_cpu(self) -> float:
        """Return the mean CPU s that the training process itself needs per step."""
        return step_cpu_of(self.loader)

    @property
    def queued(self) -> float:
        """Return the share of the time of making batches in which their makers had to wait for a CPU."""
        wall = sum(f.wall for f in self.loader.fetches)
        if entangled(self.run, self.loader):
            return max(0.0, 1 - sum(f.cpu for f in self.loader.fetches) / wall) if wall else 0.0
        return sum(f.queued for f in self.loader.fetches) / wall if wall else 0.0

    def fitting_workers(self) -> int:
        """Return how many workers the CPUs of this job can keep running.

        Workers that wait for disk or network need no CPU meanwhile, so their number may exceed the CPUs'.
        """
        busy = self.making_cpu / self.making if self.making else 0.0
        return max(1, round(min(CANDIDATES[-1], self.job.cpus / busy if busy else CANDIDATES[-1])))

    def most_workers(self) -> int:
        """Return the largest number of workers that the CPUs and /dev/shm can feed."""
        most = max(self.fitting_workers(), self.loader.num_workers)
        return max(1, min(most, int(self.queued_batches() / self.now.prefetch), CANDIDATES[-1]))

    def queued_batches(self) -> float:
        """Return how many finished batches of this rank find room in /dev/shm; endless where that is not known."""
        free, size = self.run.machine.shm_free, self.loader.batch_bytes
        if free is None or not size:
            return float(CANDIDATES[-1] * PREFETCHES[-1])
        return free * ROOM / size / self.run.machine.ranks

    def loop(self, setting: Setting) -> float:
        """Return the predicted time of the whole loop under these settings, in s."""
        if setting not in self._loops:
            self._loops[setting] = self._loop(setting)
        return self._loops[setting]

    def _loop(self, setting: Setting) -> float:
        epochs = [e for e in self.loader.epochs if e.batches]
        lengths = [e.batches for e in epochs] or [self.loader.batches]
        total = 0.0
        cache: dict[int, float] = {}
        for number, batches in enumerate(lengths):
            if batches not in cache:
                cache[batches] = self.job.epoch(
                    setting.workers, setting.prefetch, batches, in_order=self.loader.in_order
                )
            total += cache[batches]
            if setting.workers and (number == 0 or not setting.persistent):
                total += self.starting(setting.workers)
        return total * self.loader.batches / max(1, sum(lengths))

    def starting(self, workers: int) -> float:
        """Return what an epoch pays to start and end `workers` workers, in s: as measured, else as known of torch."""
        fresh = [e for e in self.loader.epochs if e.batches and e.start > 0]
        if self.loader.persistent_workers:
            fresh = fresh[:1]
        if fresh and self.loader.num_workers:
            making = self.making
            first = _mean(max(0.0, e.first_wait - making) for e in fresh)
            paid = _mean(e.start + e.shutdown for e in fresh)
            return first + paid * workers / self.loader.num_workers
        each = START_S if self.loader.start_method == "fork" else SPAWN_S
        return FIRST_S + workers * (each + STOP_S)

    def gain(self, setting: Setting, job: Job | None = None) -> Speedup:
        """Return what `setting` (and `job`, where the work itself changes) would buy over how the loop is now."""
        now = self.loop(self.now)
        other = self if job is None else self._with(job)
        then = other.loop(setting)
        return self._interval(now, then, apart=bool(setting.workers))

    def relieved(self, setting: Setting) -> Speedup:
        """Return what `setting` would buy if all that the model cannot explain now is the crowd on the CPUs.

        Threads of one worker that wait for each other burn CPU meanwhile. What a batch costs without that shows at best
        in the quietest batch of the run, which was made when others stood still. How much they burn nobody knows
        (x5 to x65 was seen), so only the lower end is sure.
        """
        loader = self.loader
        epochs = sum(e.start + e.first_wait + e.shutdown for e in loader.epochs if e.batches)
        rest = max(0.0, self.process.loop - self.per_batch * loader.batches - epochs)  # evaluations, other loaders
        crowded = self.process.loop / max(TINY, self.loop(setting) + rest)
        if not entangled(self.run, loader):
            return interval(max(1.0, crowded), 3 * ERROR)
        cpus = [f.cpu / max(1, f.samples) for f in loader.fetches]
        quiet = min(cpus) * len(cpus) / max(TINY, sum(cpus))
        job = replace(self.job, fetches=tuple(Work(f.cpu * quiet, f.blocked) for f in self.job.fetches))
        alone = self.process.loop / max(TINY, self._with(job).loop(setting) + rest)
        tangled = SPINNING if (loader.worker_threads or 1) <= self.job.cpus else THROTTLED
        likely = min(MOST, max(alone, crowded, tangled))
        return Speedup(low=max(UNTANGLED, min(crowded, likely)), likely=likely, high=MOST)

    def _with(self, job: Job) -> "Outlook":
        return Outlook(self.run, self.process, self.loader, job)

    def _interval(self, now: float, then: float, *, apart: bool = False) -> Speedup:
        """Compare two predicted loops; what the model cannot explain of the present one stays in both.

        Its error at the present settings, where the truth is known, is the width of the interval. `apart` says that
        batches are then made in processes of their own: made in turns with the step they evict its caches, and
        it theirs, by more than a cold start where both are large.
        """
        measured = self.process.loop if len(self._training()) == 1 else now
        rest = max(0.0, measured - now)
        likely = (now + rest) / max(TINY, then + rest)
        off = min(0.5, abs(measured - now) / measured if measured else 0.0)
        width = ERROR + 0.5 * off + 0.05 * min(FAR, abs(likely - 1))
        found = interval(likely, width)
        turns = 0.0 if self.now.workers or not apart else min(1.0, self.making_cpu / max(TINY, self.per_batch))
        return replace(found, high=found.high * (1 + INLINE * turns))

    def _training(self) -> list[Loader]:
        return [loader for loader in self.process.loaders if loader.training]

    def best_workers(self) -> tuple[int, bool, Speedup]:
        """Return the smallest num_workers that is about as good as any, whether they must persist, and the gain."""
        most = self.most_workers()
        numbers = [n for n in CANDIDATES if n <= most] or [1]
        plain = self._smallest(numbers, persistent=self.now.persistent)
        lasting = self._smallest(numbers, persistent=True)
        persistent = self.now.persistent or self._seconds(*lasting) * PERSIST_GAIN < self._seconds(*plain)
        chosen = lasting if persistent else plain
        return chosen[0], persistent, self._interval(self.loop(self.now), self._seconds(*chosen), apart=True)

    def _smallest(self, numbers: Sequence[int], *, persistent: bool) -> tuple[int, bool]:
        """Choose for batches a little slower than measured: advice on the very edge would be taken back next time."""
        stressed = replace(self.job, fetches=tuple(replace(f, blocked=f.blocked * STRESS) for f in self.job.fetches))
        other = self._with(stressed)
        tried = {n: other.loop(Setting(n, self.now.prefetch, persistent)) for n in numbers}
        best = min(tried.values())
        return min(n for n, seconds in tried.items() if seconds <= best * GOOD_ENOUGH), persistent

    def _seconds(self, workers: int, persistent: bool) -> float:  # noqa: FBT001 - a setting, handed through
        return self.loop(Setting(workers, self.now.prefetch, persistent))

    def best_prefetch(self) -> tuple[int, Speedup]:
        """Return the smallest prefetch_factor that is about as good as any, and what it would buy."""
        most = max(self.now.prefetch, self.queued_batches() / max(1, self.now.workers))
        factors = [p for p in PREFETCHES if p <= most] or [self.now.prefetch]
        tried = {p: self.loop(Setting(self.now.workers, p, self.now.persistent)) for p in factors}
        best = min(tried.values())
        chosen = min(p for p, seconds in tried.items() if seconds <= best * GOOD_ENOUGH)
        return chosen, self._interval(self.loop(self.now), tried[chosen])

    def without_waiting(self) -> Speedup:
        """Return what batches that were prepared offline would buy: about the bound of all that can be done to them.

        They lie in as many files as before: what it takes to open these stays.
        """
        wanted = storage.demand(self.run, self.loader)
        files = wanted.handling if wanted else 0.0
        prepared = tuple(Work(min(f.cpu, max(f.cpu * PREPARED, files)), 0.0) for f in self.job.fetches)
        job = replace(self.job, fetches=prepared, delivery=min(self.job.delivery, DELIVERY_S))
        return self.gain(Setting(max(1, self.now.workers), self.now.prefetch, persistent=True), job)

    def with_cheaper_batches(self, share: float) -> Speedup:
        """Return what it would buy to make each batch with only `share` of its CPU time."""
        job = replace(self.job, fetches=tuple(replace(f, cpu=f.cpu * share) for f in self.job.fetches))
        return self.gain(self.now, job)

    def beyond(self, span: str) -> Loss:
        """Return what the loop loses to a kind of pause beyond the pauses themselves."""
        pauses = self.loader.pauses.get(span, ())
        found = aftermath(self.loader, span)
        count = sum(pause > 0 for pause in pauses) / max(1, len(pauses)) * self.loader.batches
        return Loss(found.seconds * count, found.unsure * count)

    def fastest_without(self, span: str) -> float:
        """Return the s that the loader needs for this loop's batches when it has no pauses in which to catch up.

        Nothing where rounds were seen so far from any pause that they tell it themselves.
        """
        pauses = self.loader.pauses.get(span, ())
        found = aftermath(self.loader, span)
        if not self.now.workers or found.apart > self.now.workers * self.now.prefetch or not pauses:
            return 0.0
        often = sum(pause > 0 for pause in pauses) / len(pauses)
        step = max(0.0, self.stepping - _mean(pauses) - found.seconds * often)
        cpu = min(step, self.step_cpu)
        width = max((step.width for step in self.job.steps), default=1.0)
        job = replace(self.job, steps=(Work(cpu, step - cpu, width),), floor=0.0)
        setting = (self.now.workers, self.now.prefetch)
        paced, now = (j.seconds(*setting, in_order=self.loader.in_order) for j in (job, replace(self.job, floor=0.0)))
        return paced * min(1.0, self.per_batch / max(TINY, now)) * self.loader.batches

    def out_of_order(self) -> Speedup:
        """Return what it would buy to take batches as they come."""
        loose = Outlook(self.run, self.process, replace(self.loader, in_order=False))
        return self._interval(self.loop(self.now), loose.loop(self.now))

    def handed_over(self, excess: float, delivery: float) -> Speedup:
        """Return what it would buy to save the share `excess` of the time in `collate_fn`, and to deliver in so many s.

        Where handing over was measured batch by batch, that is what it costs the training now.
        """
        loader = self.loader
        now = max(self.job.delivery, _mean(loader.deliveries)) if loader.num_workers else self.job.delivery
        job = replace(self.job, delivery=now, steps=tuple(_steps(self.run, loader, now)) or self.job.steps)
        fetches = tuple(_cheaper(work, f, excess) for work, f in zip(job.fetches, loader.fetches, strict=True))
        lighter = replace(job, fetches=fetches, delivery=min(now, delivery))
        return self._with(job).gain(self.now, lighter)

    def fastest(self) -> float:
        """Return the s that this loop's batches would take if no step took any time: what the loader can do at best."""
        job = replace(self.job, steps=(Work(0.0, 0.0),), floor=0.0)
        return job.seconds(self.now.workers, self.now.prefetch, in_order=self.loader.in_order) * self.loader.batches


def _cheaper(work: Work, fetch: Fetch, excess: float) -> Work:
    """Return the making of a batch without a share of its `collate_fn`, of which the CPU had its part while it ran."""
    wanted = fetch.cpu + fetch.queued
    saved = excess * fetch.collate * (fetch.cpu / wanted if wanted else 1.0)
    return Work(max(PREPARED * work.cpu, work.cpu - saved), work.blocked, work.width)


def pause_gain(run: Features, process: Process, span: str, keep: float) -> Speedup:
    """Return what it buys to keep only the share `keep` of all pauses of a span kind in a process's loop.

    A pause costs more than itself (`aftermath.py`). But workers fill their queues in a pause, so a loop cannot get
    faster than its loader by losing its pauses, nor faster than the device, which may go on as well; an evaluation's
    work on the device goes with it.
    """
    total = process.in_loop.get(span, 0.0)
    if total <= 0 or process.loop <= 0:
        return interval(1.0, ERROR)
    known = _known(run, process)
    beyond = known[0].beyond(span) if known else _beyond(process, span, total)
    limit = max((outlook.fastest_without(span) for outlook in known), default=0.0)
    if span != "evaluation":
        steps = max(1, process.batches or process.optimizer_steps)
        limit = max(limit, device_time(run, process, process.loop / steps) * steps)
    most = min(max(0.0, process.loop - limit), 0.99 * process.loop)
    low, likely, high = (
        process.loop / (process.loop - min(most, max(0.0, total + beyond.seconds + more) * (1 - keep)))
        for more in (-beyond.unsure, 0.0, beyond.unsure)
    )
    return Speedup(low=low * (1 - ERROR), likely=likely, high=high * (1 + ERROR))


def _beyond(process: Process, span: str, total: float) -> Loss:
    """Return what is lost beyond the pauses of a kind in a loop of which no single round is known."""
    count = max((p.count for p in process.places if p.span == span), default=0)
    steps = min(count, process.optimizer_steps)
    if not steps or span == "evaluation":
        return Loss(0.0, 0.0)
    cold = steps * chill(total / steps, (process.loop - total) / process.optimizer_steps)
    return Loss(cold, cold)


def moved_to_workers(run: Features, process: Process, each: float) -> tuple[int, Speedup]:
    """Return num_workers, and what it buys to do in them what takes `each` s of every step in the loop.

    Of these it needs a CPU for as large a share as of the whole step; in the rest others had it.
    """
    steps = process.batches or process.optimizer_steps
    cpus = max(0.1, run.machine.cpus / run.machine.ranks)
    found = _known(run, process)
    if found:
        job = found[0].job
        present = found[0].now.workers
        each *= min(1.0, _mean(s.cpu + s.blocked for s in job.steps) / max(TINY, found[0].stepping))
    else:
        cpu = (process.cpu or 0.0) * process.loop / steps
        whole = process.loop / steps
        width = max(1.0, min(cpus, cpu / whole))
        busy = min(whole, cpu / width)
        floor = device_time(run, process, whole)
        job = Job(fetches=(Work(0.0, 0.0),), steps=(Work(busy, whole - busy, width),), cpus=cpus, floor=floor)
        present = 0
    now = job.seconds(present, TYPICAL_PREFETCH)
    moved = replace(
        job,
        fetches=tuple(replace(f, cpu=f.cpu + each) for f in job.fetches),
        steps=tuple(_less(step, each) for step in job.steps),
    )
    tried = {n: moved.seconds(n, TYPICAL_PREFETCH) for n in CANDIDATES if n <= max(1, round(cpus), present)}
    best = min(tried.values())
    chosen = min(n for n, seconds in tried.items() if seconds <= best * GOOD_ENOUGH)
    rest = max(0.0, process.loop / steps - now)  # pauses, evaluations: they stay
    return chosen, interval((now + rest) / max(TINY, tried[chosen] + rest), 2 * ERROR)


def _less(step: Work, seconds: float) -> Work:
    """Return a step without `seconds` of single-threaded CPU work that were part of it."""
    cpu = max(0.0, step.cpu - seconds)
    return Work(cpu, max(0.0, step.blocked - max(0.0, seconds - step.cpu)), step.width)


def interval(likely: float, width: float) -> Speedup:
    """Return a speed-up with a relative half-width."""
    likely = min(likely, MOST)
    return Speedup(low=max(0.01, likely * (1 - width)), likely=likely, high=likely * (1 + width))


def job_of(run: Features, process: Process, loader: Loader) -> Job:
    """Return the work behind a loader's batches, as measured: what each batch and each step took of what."""
    delivery = delivery_of(loader)
    return Job(
        fetches=tuple(_fetches(run, loader)) or (Work(0.0, 0.0),),
        steps=tuple(_steps(run, loader, delivery)) or (Work(0.0, 0.0),),
        cpus=max(0.1, run.machine.cpus / run.machine.ranks),
        others=strangers(run, loader) / run.machine.ranks,
        delivery=delivery,
        floor=device_time(run, process, (sum(loader.waits) + sum(loader.steps)) / max(1, len(loader.waits))),
        cools=True,
    )


def delivery_of(loader: Loader) -> float:
    """Return the CPU s that it takes the training to get a batch that is ready: unpickling, opening its memory.

    As measured, a low quantile, for the rest waited for a CPU, and without what a thread that slept is late by; else
    as known of torch.
    """
    if len(loader.deliveries) >= LEAST_BATCHES:
        measured = sorted(loader.deliveries)[len(loader.deliveries) // 4]
        return measured - chill(_mean(loader.waits) - measured, measured)
    delivery = DELIVERY_S + (loader.batch_bytes or 0) / COPY_RATE
    return min(delivery, loader.delivery) if loader.num_workers and loader.waits else delivery


def _fetches(run: Features, loader: Loader) -> Iterable[Work]:
    """Return the work of making each batch; in the training's own process it begins cold after each step.

    The time that a disk at its limit needs for it is told apart, without the other readers that shared it.
    """
    tangle = entangled(run, loader)
    stepping = 0.0 if loader.num_workers else _mean(loader.steps)
    busy = min(1.0, step_cpu_of(loader) / stepping) if stepping else 0.0
    disk, readers = storage.at_the_limit(run, loader)
    standing = _mean(fetch.blocked for fetch in loader.fetches)
    share = min(1 / readers, disk / standing) if standing and not tangle else 0.0
    for fetch in loader.fetches:
        cold = chill(stepping, fetch.cpu, busy) if stepping else 0.0
        blocked = 0.0 if tangle else fetch.blocked * (1 - share * readers)
        yield Work(fetch.cpu - cold, blocked, disk=fetch.blocked * share)


def step_cpu_of(loader: Loader) -> float:
    """Return the CPU s of the training process in a step: read at the steps' ends, else its share of the whole loop."""
    if len(loader.step_cpus) >= LEAST_SAMPLED:
        return _mean(loader.step_cpus)
    return max(0.0, (loader.step_cpu or 0.0) - (delivery_of(loader) if loader.num_workers else 0.0))


def step_queued_of(loader: Loader) -> float:
    """Return the s that the training process queues for a CPU in a step: of the loop's, what the step leaves room for.

    In a step that was timed on both clocks it can only be what neither computing nor a pause explains.
    """
    if len(loader.step_cpus) < LEAST_SAMPLED:
        return loader.step_queued
    explained = _mean(loader.step_cpus) + sum(_mean(series) for series in loader.pauses.values())
    return min(loader.step_queued, max(0.0, _mean(loader.steps) - explained))


def entangled(run: Features, loader: Loader) -> bool:
    """Return whether workers have threads of their own, and together more than there are CPUs.

    Then the time in which a worker neither runs nor queues is no I/O: its first thread waits for its other ones.
    """
    threads = (loader.worker_threads or 1) * loader.num_workers
    return (loader.worker_threads or 1) > 1 and threads > run.machine.cpus / run.machine.ranks


def strangers(run: Features, loader: Loader) -> float:
    """Return how many foreign threads compete for the CPUs: at least the cores they use.

    Where they crowd the CPUs, more of them want to run than do. How many shows in the share of the time for which the
    training and the makers of its batches, when runnable, had a CPU: the CPUs over all runnable threads, ours included.
    """
    used = run.machine.others or 0.0
    cpu = _mean(f.cpu for f in loader.fetches) + (loader.step_cpu or 0.0)
    queued = _mean(f.queued for f in loader.fetches) + step_queued_of(loader)
    per_batch = _mean(loader.waits) + _mean(loader.steps)
    if used < CROWD or not cpu or not queued or not per_batch or entangled(run, loader):
        return used
    ours = (cpu + queued) / per_batch if loader.num_workers else 1.0
    each = min(MOST_CROWDED, (cpu + queued) / cpu)
    return max(used, run.machine.cpus * each - ours)


def _steps(run: Features, loader: Loader, delivery: float) -> Iterable[Work]:
    """Split each step into its CPU part and the rest, by the means over the loop; less what beginning cold cost it."""
    if not loader.steps:
        return
    mean = _mean(loader.steps)
    active = mean - min(step_queued_of(loader), 0.8 * mean)
    cpu = step_cpu_of(loader)
    width = min(max(1.0, cpu / active if active else 1.0), max(1.0, run.machine.cpus))
    share = min(1.0, cpu / width / active) if active else 0.0
    wall = sum(f.wall for f in loader.fetches)
    busy = 0.0 if loader.num_workers or not wall else sum(f.cpu for f in loader.fetches) / wall
    got = delivery if loader.num_workers else 0.0
    waited = _mean(loader.waits)
    for i, step in enumerate(loader.steps):
        alone = step * active / mean if mean else 0.0
        wait = loader.waits[i - 1] if 0 < i <= len(loader.waits) else waited
        cold = chill(wait - got, alone * share, busy)
        yield Work(max(0.0, alone * share - cold), alone * (1 - share), width)


def device_time(run: Features, process: Process, per_batch: float) -> float:
    """Return the s per batch that the device works in any case: no loader setting can go below it.

    From the device's own clock where the guest had it, else from NVML's busy share of the time per batch (s).
    """
    if process.works:
        return _mean(process.works)
    return _mean(d.busy for d in run.devices if d.busy is not None) * per_batch


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values) if values else 0.0


class _Latest:
    """The outlooks of the run that was asked for last: all advisors look at one run, and each asks for them."""

    def __init__(self) -> None:
        self._run: Features | None = None
        self._found: dict[int, tuple[Process, list[Outlook]]] = {}

    def of(self, run: Features, process: Process) -> list[Outlook]:
        """Return an outlook for every training loader of a process of which enough is known."""
        if self._run is not run:
            self._run, self._found = run, {}
        kept = self._found.get(id(process))
        if kept is None:
            found = [Outlook(run, process, loader) for loader in process.loaders if loader.training]
            kept = self._found[id(process)] = (
                process,
                [o for o in found if o.known],
            )  # the process: ids are used again
        return kept[1]


_LATEST = _Latest()


def _known(run: Features, process: Process) -> list[Outlook]:
    """Return an outlook for every training loader of a process of which enough is known, the most waited-for first."""
    return sorted(_LATEST.of(run, process), key=lambda o: -o.loader.wait_total)


def outlooks(run: Features) -> list[Outlook]:
    """Return an outlook for every training loader of which enough is known, the most waited-for first.

    Ranks run the same line with the same settings: the one that waits most stands for all of them.
    """
    found = sorted((o for p in run.processes for o in _known(run, p)), key=lambda o: -o.loader.wait_total)
    first: dict[tuple[str, Setting], Outlook] = {}
    for outlook in found:
        first.setdefault((outlook.loader.where, outlook.now), outlook)
    return list(first.values())
