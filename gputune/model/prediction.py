"""What a change would buy, as a ratio of samples/s: the one place that turns features into predictions.

Loader settings are replayed (`replay.py`) over the work that was measured (`workload.py`). Every prediction is an
interval: the model's own error at the present settings, where the truth is known, widens it.

Over 300 lines because all predictions share one view of a loop and one error, and the advisors must not have their own.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from statistics import stdev

from gputune.core.figures import NORMAL, TINY, mean
from gputune.core.finding import ERROR, MOST, Speedup, interval
from gputune.features import Epoch, Features, Fetch, Loader, Machine, Process
from gputune.features.concurrent_loaders import ALONE
from gputune.model import shard_imbalance, storage
from gputune.model.batch_handoff import GOTTEN_S, hand_over_of
from gputune.model.concurrency import changed, together
from gputune.model.cpu_jitter import unsteadiness
from gputune.model.minimum_samples import LEAST_BATCHES, LEAST_SAMPLED, alike
from gputune.model.pause_overhead import aftermath
from gputune.model.rank_team import starved
from gputune.model.replay import DELIVERY_S, TYPICAL_PREFETCH, Job, Work
from gputune.model.worker_warmup import lost, settled
from gputune.model.workload import CROWD, entangled, step_cpu_of, step_queued_of, stolen_from, stretched, warmest

__all__ = ["ERROR", "MOST", "interval"]

PREPARED = 0.05  # of a batch's CPU time: reading and passing it on is never free
PREPARED_S = 0.00003  # s of CPU to read one sample that was prepared, out of memory or a pack (measured: 5 to 60 µs)
START_S = 0.008  # s to fork one worker, when this run has started none (torch 2.13, Linux: 6 to 10 ms)
STOP_S = 0.003  # s to end one worker, likewise
RESET_S = 0.0015  # s for each worker that persists until the first batch is on its way again, beyond making it
SPAWN_S = 1.0  # s for a worker that imports torch anew (spawn, forkserver)
FIRST_S = 0.012  # s until a fresh worker's first batch is on its way, beyond making it
SPINNING = 15.0  # times: what teams of threads cost that each fit the CPUs, but not together: libgomp spins for long
THROTTLED = 4.0  # times: and teams of more threads than CPUs: then libgomp hardly spins
UNTANGLED = 1.1  # times: and what is sure even where they sleep instead
UNSTEADY = 0.2  # at most: what more stretches of a run differ by is not the CPUs' pace
CROWDED = 0.08  # of a gain, where strangers fill the CPUs: they are never the same in two runs
INLINE = 0.12  # times: work that has a process of its own may be so much faster than in turns with the step
CANDIDATES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
PREFETCHES = (2, 4, 8, 16)
FAR = 0.1  # of a prediction, for each time that it is e times as fast: of what is left of a round less is known
ENDLESS = 1_000_000  # batches: of a pass whose end nobody knows, what it pays once counts for next to nothing
MOST_HELD = 0.9  # of a loop held up by others: beyond it, the clocks and not the crowd are to be doubted
PARTLY = 0.25  # of what strangers hold up by their use of the CPUs: by how much that may be wrong
MOSTLY = 0.5  # of a loader's passes within another's: from here on the two are drawn from side by side
GOOD_ENOUGH = 1.03  # a smaller setting this close to the best one is the better advice
STRESS = 1.15  # blocked times for which a number of workers must still do: storage is slower at other hours
ROOM = 0.8  # of what is free in /dev/shm: batches vary in size, and the run's own are in there already
PERSIST_GAIN = 1.1  # workers that persist must be this much better before more workers are advised only with it
HALF = 0.5  # of a CPU that was idle: what it gives at the least beside busy ones


@dataclass(frozen=True, slots=True)
class Setting:
    """Loader settings under which the loop is replayed."""

    workers: int
    prefetch: int
    persistent: bool
    once: bool = False  # the DataLoader is built once, whatever the run does: only then do all its passes share workers


@dataclass(frozen=True, slots=True)
class Loss:
    """What a loop loses to a kind of pause, in s: likely, by how much that may be wrong, and what more it may be.

    `lingers` is by how much the rounds of another run, without such pauses, may be slower or quicker than these here.
    """

    seconds: float
    unsure: float
    colder: float = 0.0
    lingers: float = 0.0


class Outlook:
    """The loop around one loader, ready to be asked what other settings would give."""

    def __init__(self, run: Features, process: Process, loader: Loader, job: Job | None = None) -> None:
        self.run = run
        self.process = process
        self.original = loader
        self.beside = tuple(other for other in process.loaders if other is not loader and other.where == loader.where)
        self.youth = lost(loader)  # s of each start of workers, None where that is not known
        self.loader = loader = settled(loader)
        self._job = job
        self._loops: dict[Setting, float] = {}
        self.now = Setting(loader.num_workers, loader.prefetch_factor or TYPICAL_PREFETCH, loader.persistent_workers)

    @cached_property
    def job(self) -> Job:
        """Return the work behind the loader's batches; of ranks that of all of them."""
        return together(self.run, self.process, self.loader) if self._job is None else self._job

    @property
    def known(self) -> bool:
        """Return whether enough was measured to predict anything."""
        loader = self.loader
        many = len(loader.waits) >= LEAST_BATCHES and len(loader.fetches) >= LEAST_BATCHES
        return self.process.loop > 0 and (many or bool(loader.fetches and alike(loader)))

    @cached_property
    def per_batch(self) -> float:
        """Return the measured steady time per batch, in s."""
        loader = self.loader
        return (sum(loader.waits) + sum(loader.steps)) / max(1, len(loader.waits))

    @cached_property
    def between(self) -> float:
        """Return the s of the loop that lie between its rounds: evaluations, other loaders."""
        young = self.youth or 0.0
        epochs = sum(e.start + e.picking + e.first_wait + e.shutdown + young for e in self.loader.epochs if e.batches)
        return max(0.0, self.whole - self.per_batch * self.batches - epochs)

    @cached_property
    def between_passes(self) -> float:
        """Return the s of the loop that lie between its passes; all that lie between rounds where no pass is known."""
        passes = sorted((e for e in self.loader.epochs if e.batches), key=lambda e: e.began)
        if not passes:
            return self.between
        gaps = sum(max(0.0, b.began - a.began - a.seconds) for a, b in pairwise(passes))
        return min(self.between, gaps * self.loader.batches / sum(e.batches for e in passes))

    @cached_property
    def other_loops(self) -> float:
        """Return the s between the rounds of this loader that are rounds of others: loops before or after its own."""
        others = [loader for loader in self._training() if loader.where != self.loader.where]
        return min(self.between, sum((mean(x.waits) + mean(x.steps)) * x.batches for x in others))

    @cached_property
    def waiting(self) -> float:
        """Return the share of the steady time per batch that is spent waiting for batches to be made or to arrive."""
        total = sum(self.loader.waits) + sum(self.loader.steps)
        return sum(self.loader.for_batches) / total if total else 0.0

    @cached_property
    def ceiling(self) -> Speedup | None:
        """Return what it would bring to wait for no batch at all, as rounds show in which they lay ready.

        That is measured, and more than anything can bring that has batches made sooner. None where too few rounds did.
        """
        rounds = self.loader.filled
        if len(rounds) < LEAST_SAMPLED or not self.now.workers or self.process.works:  # a device is behind its host
            return None
        paused = sum(mean(series) for series in self.loader.pauses.values())
        usual, ready = self.per_batch - paused, mean(rounds)
        error = NORMAL * stdev(rounds) / math.sqrt(len(rounds))

        def gain(each: float) -> float:
            spared = max(0.0, usual - each) * self.batches + sum(e.first_wait for e in self.loader.epochs)
            return min(MOST, self.whole / max(TINY, self.whole - spared))

        return Speedup(low=gain(ready + error), likely=gain(ready), high=gain(max(TINY, ready - error)))

    def _reached(self, found: Speedup) -> Speedup:
        """Return a gain of batches that are made sooner, no higher than where none is waited for."""
        ceiling = self.ceiling
        if ceiling is None:
            return found
        found = within(found, ceiling.likely)
        return replace(found, high=max(found.likely, min(found.high, ceiling.high)))

    @cached_property
    def starving(self) -> float:
        """Return the share of its time for which the job waits for batches: of ranks, for whichever's is the last."""
        together = starved(self.run) if self.job.mates else None
        return self.waiting if together is None else together

    @cached_property
    def picking(self) -> float:
        """Return the mean s that the batch sampler takes to say which samples make a batch."""
        return mean(self.loader.picks)

    @cached_property
    def making(self) -> float:
        """Return the mean s that one batch takes to make, time spent queueing for a CPU left out."""
        tangle = entangled(self.run, self.loader)
        return mean(f.cpu if tangle else f.cpu + f.blocked for f in self.loader.fetches)

    @cached_property
    def arriving(self) -> float:
        """Return the mean s from when a batch is asked for until it has come: its own queue for a CPU included."""
        return mean(f.wall for f in self.loader.fetches) + hand_over_of(self.loader) + self.pinning + self.picking

    @cached_property
    def pinning(self) -> float:
        """Return the mean s for which a thread of its own pins a batch, time spent queueing for a CPU left out."""
        return mean(pin.cpu + pin.blocked for pin in self.job.pins)

    @property
    def handing(self) -> float:
        """Return the s that it takes to get a batch that is made, whoever gets it: the training, or who pins it."""
        return self.job.taking if self.job.pins else self.job.delivery

    @cached_property
    def making_cpu(self) -> float:
        """Return the mean CPU s that one batch takes to make."""
        return mean(f.cpu for f in self.loader.fetches)

    @cached_property
    def making_wanted(self) -> float:
        """Return the mean s for which one batch needs a CPU, with what the host of a virtual machine stole of them."""
        return self.making_cpu + stolen_from(self.making_cpu, self.making - self.making_cpu, stretched(self.run))

    @cached_property
    def stepping(self) -> float:
        """Return the mean s from the return of a next() to the following one."""
        return mean(self.loader.steps)

    @cached_property
    def stepping_alone(self) -> float:
        """Return the same without what a rank stands where it meets others, where it is replayed together with them."""
        return mean(s.cpu + s.blocked for s in self.job.steps) if self.job.mates else self.stepping

    @cached_property
    def elsewhere(self) -> Mapping[str, float]:
        """Return the mean s of a step in which the training waits for other loaders, drawn from side by side, by place.

        Their waits, as far as they come within passes of this one, and never more than the step.
        """
        others = (other for other in self._training() if other is not self.original and _overlap(self.loader, other))
        found: dict[str, float] = {}
        for other in others:
            found[other.where] = found.get(other.where, 0.0) + other.wait_total / max(1, self.loader.batches)
        return found if sum(found.values()) < self.stepping else {}

    @cached_property
    def step_cpu(self) -> float:
        """Return the mean CPU s that the training process itself needs per step."""
        return step_cpu_of(self.loader)

    @cached_property
    def queued(self) -> float:
        """Return the share of the time of making batches in which their makers had to wait for a CPU."""
        wall = sum(f.wall for f in self.loader.fetches)
        queued = sum(f.queued for f in self.loader.fetches) / wall if wall else 0.0
        # A worker's first thread also waits for its others, or spins for them.
        if wall and entangled(self.run, self.loader):
            return max(queued, 1 - sum(f.cpu for f in self.loader.fetches) / wall)
        return queued

    @property
    def queued_for_own(self) -> float:
        """Return the share of that time in which it was this job's own threads that had the CPUs, and not others."""
        others = foreign(self.run.machine, self.process) if self.job.others >= CROWD else 0.0
        return self.queued * (1 - others)

    def fitting_workers(self) -> int:
        """Return how many workers the CPUs of this job can keep running.

        Workers that wait for disk or network need no CPU meanwhile, so their number may exceed the CPUs'.
        """
        busy = self.making_wanted / self.making if self.making else 0.0
        return max(1, round(min(CANDIDATES[-1], self.job.cpus / busy if busy else CANDIDATES[-1])))

    def most_workers(self) -> int:
        """Return the largest number of workers that the CPUs and /dev/shm can feed.

        All loaders that its line builds get as many: those that live at once share what there is.
        """
        beside = self.loader.company
        most = max(self.fitting_workers() // beside.training, self.loader.num_workers)
        queues = self.queued_batches() / beside.iterated
        return max(1, min(most, int(queues / self.now.prefetch), CANDIDATES[-1]))

    def is_short_of_room(self) -> bool:
        """Return whether the CPUs can feed more workers than /dev/shm has room for."""
        room = self.queued_batches() / self.loader.company.iterated / self.now.prefetch
        return self.fitting_workers() // self.loader.company.training > max(1, room)

    def with_room(self) -> "Outlook":
        """Return the outlook for this loop where /dev/shm has room for whatever workers make."""
        roomy = replace(self.run, machine=replace(self.run.machine, shm_free=None))
        return Outlook(roomy, self.process, self.original, self.job)

    def queued_batches(self) -> float:
        """Return how many finished batches of this rank find room in /dev/shm; endless where that is not known."""
        free, size = self.run.machine.shm_free, self.loader.batch_bytes
        if free is None or not size:
            return float(CANDIDATES[-1] * PREFETCHES[-1])
        return free * ROOM / size / self.run.machine.ranks

    @cached_property
    def to_come(self) -> int:
        """Return how many batches the pass under way is still to give; 0 in a run that is over.

        As many as those before it gave, else as the loader says; of a stream the end is nowhere near. What a pass pays
        once, as for starting workers, would weigh too much in its first twenty batches.
        """
        epochs = [e for e in self.loader.epochs if e.batches]
        if self.run.exit_code is not None or not epochs or epochs[-1].complete:
            return 0
        usual = max((e.batches for e in epochs[:-1]), default=self.loader.length or ENDLESS)
        return max(0, usual - epochs[-1].batches)

    @cached_property
    def batches(self) -> int:
        """Return how many batches the loop gives, to the end of the pass under way."""
        return self.loader.batches + self.to_come

    @cached_property
    def whole(self) -> float:
        """Return the s of the loop, to the end of the pass under way at the pace that it has."""
        return self.process.loop + self.to_come * self.per_batch

    def loop(self, setting: Setting) -> float:
        """Return the predicted time of the whole loop under these settings, in s."""
        if setting not in self._loops:
            self._loops[setting] = self._loop(setting)
        return self._loops[setting]

    def _loop(self, setting: Setting) -> float:
        epochs = [e for e in self.loader.epochs if e.batches]
        lengths = [e.batches for e in epochs] or [self.loader.batches]
        lengths[-1] += self.to_come
        built = {number for number, e in enumerate(epochs) if e.fresh and not setting.once} | {0}
        total = 0.0
        cache: dict[int, float] = {}
        for number, batches in enumerate(lengths):
            if batches not in cache:
                cache[batches] = self._epoch(setting, batches)
            total += cache[batches]
            if setting.workers and (number in built or not setting.persistent):
                total += self.starting(setting.workers)
            elif setting.workers:
                total += self.resetting(setting.workers)
        if setting.workers and setting.persistent:  # these end with their DataLoader: the last ones after the loop
            total -= self.ending(setting.workers)
        return total * self.batches / max(1, sum(lengths))

    def _epoch(self, setting: Setting, batches: int) -> float:
        """Return the s of a pass; no shorter than its slowest part, while the workers that have parts are as many."""
        seconds = self.job.epoch(setting.workers, setting.prefetch, batches, in_order=self.loader.in_order)
        return max(seconds, self.part * batches) if setting.workers == self.now.workers else seconds

    @cached_property
    def part(self) -> float:
        """Return the s for each batch of a pass that the slowest part of an iterable dataset takes alone; else 0."""
        return shard_imbalance.longest(self.loader, self.job.fetches)

    def starting(self, workers: int) -> float:
        """Return what an epoch pays to start and end `workers` workers, in s: as measured, else as known of torch."""
        fresh = self._fresh()
        if fresh:
            first = mean(max(0.0, e.first_wait - self.arriving) for e in fresh)
            late = mean(map(self._one_by_one, fresh)) if self.youth is None else self.youth
            paid = mean(e.start for e in fresh) + late
            return first + paid * workers / self.loader.num_workers + self.ending(workers)
        each = START_S if self.loader.start_method == "fork" else SPAWN_S
        return FIRST_S + workers * each + self.ending(workers)

    def ending(self, workers: int) -> float:
        """Return what of that it is to end them, in s."""
        fresh = self._fresh()
        each = mean(e.shutdown for e in fresh) / self.loader.num_workers if fresh else STOP_S
        return workers * each

    def _fresh(self) -> list[Epoch]:
        """Return the passes that started workers."""
        fresh = [e for e in self.loader.epochs if e.batches and e.start > 0] if self.loader.num_workers else []
        return fresh[:1] + [e for e in fresh[1:] if e.fresh] if self.loader.persistent_workers else fresh

    def _one_by_one(self, epoch: Epoch) -> float:
        """Return what an epoch waits longer for the first batches of its other workers than for any: they are late."""
        others = min(self.loader.num_workers, epoch.batches) - 1
        return max(0.0, epoch.others_first - others * mean(self.loader.waits))

    def resetting(self, workers: int) -> float:
        """Return what an epoch pays to set lasting workers to work again, in s: as measured, else as seen of torch."""
        again = [e for e in [e for e in self.loader.epochs if e.batches][1:] if not e.fresh]
        if not self.loader.persistent_workers or not self.loader.num_workers or not again:
            return workers * RESET_S
        return mean(e.start + max(0.0, e.first_wait - self.arriving) for e in again)

    def gain(self, setting: Setting, job: Job | None = None) -> Speedup:
        """Return what `setting` (and `job`, where the work itself changes) would buy over how the loop is now."""
        now = self.loop(self.now)
        other = self if job is None else self.altered(job)
        then = other.loop(setting)
        return self._interval(now, then, apart=bool(setting.workers))

    def freed(self, job: Job) -> Speedup:
        """Return what it would buy if batches were made as in `job`, whose making keeps the loop waiting no longer.

        Steps that nobody waits before begin warm: by how much faster that makes them, only the upper end knows. What
        the model cannot explain is likely the makers' own, for it is them that the loop waits for: it stays with them,
        and only at the least with the loop.
        """
        found, warm = self.gain(self.now, job), self.gain(self.now, warmest(job, self.loader))
        likely = max(found.likely, self._makers_late(self, self.altered(job)))
        return replace(found, likely=likely, high=max(found.high * likely / found.likely, warm.likely))

    def _makers_late(self, now: "Outlook", then: "Outlook") -> float:
        """Return what the change to `then` buys if what the model cannot explain `now` is all the makers' own.

        But for what lies between passes, which is known to be something else, and for what the same says of the loop as
        it is: makers that idle hide it there as well. They compute in it if that is what they mostly do now.
        """
        late = max(0.0, self.whole - now.loop(self.now) - self.between_passes) / max(1, self.batches)
        if not late or len(self._training()) > 1 or late > mean(self.loader.for_batches):
            return 1.0
        each = late * max(1, self.now.workers)
        fetches = now.job.fetches
        busy = mean(f.cpu for f in fetches) > mean(f.blocked + f.disk for f in fetches)
        cpu, blocked = (each, 0.0) if busy else (0.0, each)

        def lasts(outlook: Outlook) -> float:
            made = tuple(replace(f, cpu=f.cpu + cpu, blocked=f.blocked + blocked) for f in outlook.job.fetches)
            return max(TINY, outlook.altered(replace(outlook.job, fetches=made)).loop(self.now) + self.between_passes)

        blamed = max(1.0, self.whole / lasts(now))
        return min(MOST, self.whole / lasts(then) / blamed)

    def alone(self) -> Speedup:
        """Return what it would buy to have the CPUs to oneself.

        Threads of one step that wait for each other are late by the last of them, and some burn CPU meanwhile: where
        a step has several, it may be more by that factor. Without strangers nobody may have to queue, as the replay
        has it, or the job's own threads may stand in each other's way instead: what is likely lies between.
        """
        found = self.gain(self.now, replace(self.job, others=0.0))
        width = max((step.width for step in self.job.steps), default=1.0)
        found = within(replace(found, high=found.high * width), 1 / (1 - min(MOST_HELD, self._held_by_others())))
        least, turns = (1 / (1 - min(MOST_HELD, self._taken_in_turns(part))) for part in (1 - PARTLY, 1.0))
        if found.likely <= turns:
            return found
        low, steady = (min(end, least * (1 - ERROR)) for end in (found.low, found.sure))
        return replace(found, low=low, likely=math.sqrt(found.likely * turns), steady=steady)

    def _held_by_others(self) -> float:
        """Return the share of the loop for which others can have held it up at the most.

        Each second of a CPU that they used held up one of our threads for a second, if it wanted that very CPU; and
        what was held up queued for a CPU, or waited for a batch whose maker did.
        """
        queued = step_queued_of(self.loader) / self.per_batch if self.per_batch else 0.0
        return min(self.run.machine.others or 0.0, queued + self.waiting)

    def _taken_in_turns(self, part: float) -> float:
        """Return the share of the loop that others hold up if a thread that queues does so for whoever uses the CPUs.

        The training queues in its step, and with its workers while a batch that is made is handed over. `part` is how
        much of what falls to strangers by their use does so in truth. Waiting for a batch to be made is all theirs.
        """
        loader = self.loader
        # of batches that were made: what it takes at the least stays in any case
        handing = 0.0 if self.job.pins else mean(loader.deliveries)
        late = max(0.0, handing - self.job.delivery) if handing else 0.0
        making = max(0.0, mean(loader.for_batches) - handing) if loader.num_workers else 0.0
        inline = 0.0 if loader.num_workers else mean(fetch.queued for fetch in loader.fetches)
        awake = (step_queued_of(loader) + late + inline) * part * foreign(self.run.machine, self.process)
        return min(self.run.machine.others or 0.0, (awake + making) / max(TINY, self.per_batch))

    def relieved(self, setting: Setting) -> Speedup:
        """Return what `setting` would buy if all that the model cannot explain now is the crowd on the CPUs.

        Threads of one worker that wait for each other burn CPU meanwhile. What a batch costs without that shows at best
        in the quietest batch of the run, which was made when others stood still. How much they burn nobody knows
        (x5 to x65 was seen), so only the lower end is sure.
        """
        loader, rest = self.loader, self.between
        crowded = self.whole / max(TINY, self.loop(setting) + rest)
        if not entangled(self.run, loader):
            return interval(max(1.0, crowded), 3 * ERROR)
        cpus = [f.cpu / max(1, f.samples) for f in loader.fetches]
        quiet = min(cpus) * len(cpus) / max(TINY, sum(cpus))
        job = replace(self.job, fetches=tuple(replace(f, cpu=f.cpu * quiet) for f in self.job.fetches))
        alone = self.whole / max(TINY, self.altered(job).loop(setting) + rest)
        tangled = SPINNING if (loader.worker_threads or 1) <= self.job.cpus else THROTTLED
        likely = min(MOST, max(alone, crowded, tangled))
        return Speedup(low=max(UNTANGLED, min(crowded, likely)), likely=likely, high=MOST, at_least=True)

    def altered(self, job: Job, loader: Loader | None = None) -> "Outlook":
        """Return the outlook for this very loop over other work, or by another loader."""
        return self._also(loader or self.loader, job)

    def _also(self, loader: Loader, job: Job | None = None) -> "Outlook":
        """Return the outlook for this very loop with something else about its loader or its work."""
        other = Outlook(self.run, self.process, loader, None if job is None else changed(self.job, job))
        other.youth, other.beside, other.original = self.youth, self.beside, self.original
        return other

    def by_itself(self) -> "Outlook":
        """Return the outlook for settings that this loader gets, and none of the others that its line builds."""
        return self._also(replace(self.loader, company=ALONE), self.job)

    def _interval(self, now: float, then: float, *, apart: bool = False) -> Speedup:
        """Compare two predicted loops with what the present one has shown that the model cannot explain.

        What lies between rounds stays. What a round takes beyond its replay may be a price that each round pays, under
        any settings, or work that the change makes less like the rest: likely is the geometric mean of both, and the
        interval holds both. The error at the present settings, where the truth is known, widens it. `apart` says that
        batches are then made in processes of their own: made in turns with the step they evict its caches, and
        it theirs, by more than a cold start where both are large.
        """
        measured = self.whole
        rest = max(0.0, measured - now)
        more = max(0.0, rest - self.between) / max(TINY, now)
        stays = (now + rest) / max(TINY, then + rest)
        goes = (now + rest) / max(TINY, then * (1 + more) + min(rest, self.between))
        likely = max(TINY, math.sqrt(stays * goes))
        off = min(0.5, abs(measured - min(rest, self.other_loops) - now) / measured if measured else 0.0)
        width = doubt(self.run) + 0.5 * off + FAR * abs(math.log(likely))
        found = interval(likely, width, unsteady(self.run))
        far = max(stays, goes) / likely
        turns = 0.0 if self.now.workers or not apart else min(1.0, self.making_cpu / max(TINY, self.per_batch))
        return replace(
            found,
            low=found.low / far,
            steady=found.steady / far,
            high=found.high * far * (1 + INLINE * turns),
        )

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
        now, then = self.loop(self.now), self._seconds(*chosen)
        # Whether a dataset cuts its slow part again for more workers is not known: at the worst it stays whole.
        whole = self._interval(now, max(then, self.part * self.batches), apart=True)
        found = self._interval(now, then, apart=True)
        if self.now.workers:  # steps that nobody waits before begin warm: by how much, only the upper end knows
            warm = self.gain(Setting(chosen[0], self.now.prefetch, chosen[1]), warmest(self.job, self.loader))
            found = replace(found, high=max(found.high, warm.likely))
        found = self._beside_strangers(found.down_to(whole), now, then, chosen)
        found = replace(found, low=min(found.low, self._on_unseen_cpus(now, then, chosen)))
        anew = persistent and not self.now.persistent  # what starting workers takes is no wait for a batch
        return chosen[0], persistent, found if anew else self._reached(found)

    def fewer_workers(self) -> tuple[int, Speedup] | None:
        """Return the smallest num_workers below the present one that is about as good as any of these, and the gain.

        None at all among them, as a sweep tries it too. Nothing where the present ones, or more, are better.
        """
        numbers = [n for n in (0, *CANDIDATES) if n < self.now.workers]
        if not numbers or self.best_workers()[0] > self.now.workers:
            return None
        tried = {n: self._seconds(n, self.now.persistent and n > 0) for n in numbers}
        best = min(tried.values())
        chosen = min(n for n, seconds in tried.items() if seconds <= best * GOOD_ENOUGH)
        if tried[chosen] >= self.loop(self.now):
            return None
        return chosen, self._spared(Setting(chosen, self.now.prefetch, self.now.persistent and chosen > 0))

    def _spared(self, fewer: Setting) -> Speedup:
        """Return what fewer workers buy; that they start sooner counts only where they start again and again."""
        if sum(epoch.batches > 0 for epoch in self.loader.epochs) > 1:
            return self.gain(fewer)
        return self._interval(*(self._epoch(setting, self.batches) for setting in (self.now, fewer)))

    def _on_unseen_cpus(self, now: float, then: float, chosen: tuple[int, bool]) -> float:
        """Return the low end of what more workers buy if CPUs that nobody has used yet give half of what one gives."""
        return self._with_fewer_cpus(unseen(self.run, self.process, self.job), self.job, now, then, chosen).low

    def _with_fewer_cpus(self, taken: float, job: Job, now: float, then: float, chosen: tuple[int, bool]) -> Speedup:
        """Return what a choice of workers that makes the loop last `then` s buys if so many CPUs are not there."""
        left = self.altered(replace(job, cpus=max(0.1, job.cpus - taken)))
        return self._interval(now, max(then, left._seconds(*chosen)), apart=True)

    def _beside_strangers(self, found: Speedup, now: float, then: float, chosen: tuple[int, bool]) -> Speedup:
        """Return what more workers buy where strangers may keep for themselves what they use of the CPUs.

        The replay shares the CPUs evenly among all who want one. But a kernel moves no thread to where it would only
        change places with another: three threads on two CPUs stay one and two, and the training may be of the two.
        Likely lies between.
        """
        used = (self.run.machine.others or 0.0) / self.run.machine.ranks
        if used < CROWD:
            return found
        kept = self._with_fewer_cpus(used, replace(self.job, others=0.0), now, then, chosen)
        return replace(found.down_to(kept), likely=math.sqrt(found.likely * min(found.likely, kept.likely)))

    def _smallest(self, numbers: Sequence[int], *, persistent: bool) -> tuple[int, bool]:
        """Choose for batches a little slower than measured: advice on the very edge would be taken back next time."""
        stressed = replace(self.job, fetches=tuple(replace(f, blocked=f.blocked * STRESS) for f in self.job.fetches))
        other = self.altered(stressed)
        tried = {n: other.loop(Setting(n, self.now.prefetch, persistent)) for n in numbers}
        best = min(tried.values())
        return min(n for n, seconds in tried.items() if seconds <= best * GOOD_ENOUGH), persistent

    def _seconds(self, workers: int, persistent: bool) -> float:  # noqa: FBT001 - a setting, handed through
        return self.loop(Setting(workers, self.now.prefetch, persistent))

    def best_prefetch(self) -> tuple[int, Speedup]:
        """Return the smallest prefetch_factor that is about as good as any, and what it would buy."""
        most = max(self.now.prefetch, self.queued_batches() / self.loader.company.iterated / max(1, self.now.workers))
        factors = [p for p in PREFETCHES if p <= most] or [self.now.prefetch]
        tried = {p: self.loop(Setting(self.now.workers, p, self.now.persistent)) for p in factors}
        best = min(tried.values())
        chosen = min(p for p, seconds in tried.items() if seconds <= best * GOOD_ENOUGH)
        return chosen, self._reached(self._interval(self.loop(self.now), tried[chosen]))

    def without_waiting(self) -> Speedup:
        """Return what samples that were prepared offline would buy: about the bound of all that can be done to them.

        They lie in as many files as before: what it takes to open these stays, and so does putting them together.
        Without workers, a worker may make them, or the training itself: to hand over small ones takes longer.
        """
        wanted = storage.demand(self.run, self.loader)
        files = wanted.handling if wanted else 0.0
        pairs = zip(self.job.fetches, self.loader.fetches, strict=True)
        prepared = tuple(Work(min(work.cpu, files + self._ready(fetch)), 0.0) for work, fetch in pairs)
        job = replace(_handing(self.job, min(self.handing, DELIVERY_S)), fetches=prepared)
        numbers = {self.now.workers, max(1, self.now.workers)}
        gains = [self.gain(Setting(number, self.now.prefetch, persistent=True), job) for number in sorted(numbers)]
        return max(gains, key=lambda gain: gain.likely)

    def _ready(self, fetch: Fetch) -> float:
        """Return the CPU s of a batch whose samples are prepared: reading each of them, and collating as now."""
        samples = fetch.samples or self.loader.batch_size or 1
        reading = PREPARED_S * samples + (self.loader.batch_bytes or 0) / storage.CACHE_RATE
        return reading + _running(fetch) * fetch.collate

    def with_cheaper_batches(self, share: float) -> Speedup:
        """Return what it would buy to make each batch with only `share` of its CPU time."""
        job = replace(self.job, fetches=tuple(replace(f, cpu=f.cpu * share) for f in self.job.fetches))
        return self.gain(self.now, job)

    def with_pinned(self, share: float, copied: tuple[float, float] = (0.0, 0.0), *, smaller: bool = True) -> Speedup:
        """Return what it would buy to pin only `share` of each batch: it is `smaller`, or the rest is pinned for good.

        `copied` are the s of a step, sure and at the most, that the device has the less to copy then: likely is their
        geometric mean. Fresh memory for the first of smaller batches is the less as well. Steps that nobody waits
        before begin warm: only the upper end knows.
        """
        pins = tuple(Work(pin.cpu * share, pin.blocked * share) for pin in self.job.pins)
        lighter = replace(self.job, pins=pins)
        some = (copied[0], math.sqrt(copied[0] * copied[1]), copied[1])
        sure, likely, most = (self._copying_less(lighter, each) for each in some)
        fresh = self.loader.fresh * (1 - share) if smaller else 0.0

        def gain(job: Job) -> Speedup:
            return self._interval(self.loop(self.now), max(TINY, self.altered(job).loop(self.now) - fresh))

        found = gain(likely).down_to(gain(sure))
        return replace(found, high=max(found.high, gain(warmest(most, self.loader)).high))

    def _copying_less(self, job: Job, seconds: float) -> Job:
        """Return a job whose device copies for so many s less a step; steps are shorter where they wait for it."""
        waits = mean(self.loader.pauses.get("sync", ()))
        steps = tuple(replace(step, blocked=step.blocked - min(step.blocked, seconds, waits)) for step in job.steps)
        return replace(job, floor=max(0.0, job.floor - seconds), steps=steps)

    def with_picked(self, share: float) -> Speedup:
        """Return what it would buy if the batch sampler took only `share` of its time in the training process."""
        return self.gain(
            self.now, replace(self.job, picks=tuple(Work(p.cpu * share, p.blocked) for p in self.job.picks))
        )

    def beyond(self, span: str) -> Loss:
        """Return what the loop loses to a kind of pause beyond the pauses themselves."""
        pauses = self.loader.pauses.get(span, ())
        found = aftermath(self.loader, span)
        count = sum(pause > 0 for pause in pauses) / max(1, len(pauses)) * self.loader.batches
        return Loss(*(each * count for each in (found.seconds, found.unsure, found.colder, found.lingers)))

    def fastest_without(self, span: str, more: float = 0.0) -> float:
        """Return the s that the loader needs for this loop's batches when it has no pauses in which to catch up.

        `more` is what they cost all steps of the loop together beyond what is likely. Nothing where rounds were seen so
        far from any pause that they tell it themselves.
        """
        pauses = self.loader.pauses.get(span, ())
        found = aftermath(self.loader, span)
        if not self.now.workers or found.apart > self.now.workers * self.now.prefetch or not pauses:
            return 0.0
        often = sum(pause > 0 for pause in pauses) / len(pauses)
        step = max(0.0, self.stepping - mean(pauses) - found.seconds * often - more / max(1, self.loader.batches))
        cpu = min(step, self.step_cpu)
        width = max((step.width for step in self.job.steps), default=1.0)
        job = changed(self.job, replace(self.job, steps=(Work(cpu, step - cpu, width),), floor=0.0))
        setting = (self.now.workers, self.now.prefetch)
        paced, now = (j.seconds(*setting, in_order=self.loader.in_order) for j in (job, replace(self.job, floor=0.0)))
        return paced * min(1.0, self.per_batch / max(TINY, now)) * self.loader.batches

    def out_of_order(self) -> Speedup:
        """Return what it would buy to take batches as they come."""
        return self._reached(self._as(replace(self.loader, in_order=False)))

    def shared_out(self) -> Speedup | None:
        """Return what it would buy if each worker had a share of the slow part; None where no part is slow.

        Likely in turn with the rest; at the least each worker makes its shares of one part after the other.
        """
        loader = self.loader
        if shard_imbalance.slow_part(loader) is None:
            return None
        least = self._as(replace(loader, fetches=shard_imbalance.one_by_one(loader.fetches)))
        return self._as(replace(loader, fetches=shard_imbalance.in_turn(loader.fetches))).down_to(least)

    def _as(self, loader: Loader) -> Speedup:
        """Return what it would buy if the loader were this one, with its settings as they are."""
        return self._interval(self.loop(self.now), self._also(loader).loop(self.now))

    def handed_over(
        self, excess: float, delivery: float, lighter: float = 0.0, fewer: float = 1.0, *, prompt: bool = True
    ) -> Speedup:
        """Return what it would buy to save the share `excess` of the time in `collate_fn`, and to deliver in so many s.

        `lighter` is the share of a step's CPU time that goes as well, where it handles fewer tensors then, and `fewer`
        the share of them that is left: each waits for a maker that is at work.

        What a batch is late by on average, beyond what it takes the training to open it, holds up each step now, and
        then as well if it is not `prompt`: few tensors are late where CPUs are taken away. But not what it is late by
        because the CPUs are crowded, which stretches its making as well, or because its maker computes the next one:
        the replay has both. Where a thread pins the batches it is that one which is held up, and not the step. What the
        model cannot explain is likely the makers' own, unless the CPUs are crowded.
        """
        loader, free = self.loader, 1 - self.queued * self._crowded()
        usual = self.handing - (1 - free) * max(0.0, self.handing - delivery)
        job, held = _handing(self.job, usual), loader.num_workers and not self.job.pins
        longer = max(0.0, mean(_handovers(loader)) * free - usual) if held else 0.0
        later = min(longer, max(0.0, delivery - usual)) if prompt else longer
        now = self.altered(replace(job, steps=tuple(_later(job, step, longer) for step in job.steps)))
        cheaper = replace(
            _handing(job, min(delivery, usual)),
            fetches=tuple(_cheaper(work, f, excess) for work, f in zip(job.fetches, loader.fetches, strict=True)),
            steps=tuple(_later(job, replace(s, cpu=s.cpu * (1 - lighter)), later) for s in job.steps),
            late=job.late * fewer,
        )
        collating = sum(f.collate for f in loader.fetches) / max(TINY, sum(f.wall for f in loader.fetches))
        left = min(fewer, 1 - max(0.0, excess) * collating)
        then = self._also(replace(loader, epochs=tuple(self._sooner(e, left) for e in loader.epochs)), cheaper)
        found = self._interval(now.loop(self.now), then.loop(self.now))
        more = max(1.0, self._makers_late(now, then) / found.likely) ** free
        return replace(found, likely=found.likely * more, high=found.high * more)

    def _sooner(self, epoch: Epoch, left: float) -> Epoch:
        """Return a pass whose first batches are late by a share of what they are now: it goes with all that goes."""
        usual, late = self.arriving + FIRST_S, self._one_by_one(epoch)
        return replace(
            epoch,
            first_wait=min(epoch.first_wait, usual + left * (epoch.first_wait - usual)),
            others_first=epoch.others_first - (1 - left) * late,
        )

    def _crowded(self) -> float:
        """Return how many of workers, training and strangers have no CPU, up to one. Workers want one while they make.

        Else what queues are the threads that take turns to hand a batch over: that is a part of handing it over.
        """
        strangers = self.job.others if self.job.others >= CROWD else 0.0
        wanted = mean(f.cpu + f.queued for f in self.loader.fetches) / max(TINY, self.per_batch)
        return min(1.0, max(0.0, min(wanted, self.loader.num_workers) + 1 + strangers - self.job.cpus))

    def pinned_at(self, job: Job, rate: float) -> Job:
        """Return a job whose batches a thread pins with so many B/s, taking them as the training does now.

        The job as it is where one pins them already, or where that rate is not known (0).
        """
        size = self.loader.batch_bytes or 0
        if not rate or not size or job.pins:
            return job
        pinned = replace(job, pins=(Work(size / rate, 0.0),), taking=job.delivery, delivery=GOTTEN_S)
        return changed(job, pinned)

    def fastest(self, pinned_at: float = 0.0, computing: float = 0.0) -> float:
        """Return the s that this loop's batches would take if no step took any time: what the loader can do at best.

        But for `computing` s of a CPU, which the workers may want too. With `pinned_at`, where no thread pins batches
        yet, one does so with so many B/s.
        """
        pinned = self.pinned_at(self.job, pinned_at)
        job = changed(pinned, replace(pinned, steps=(Work(computing, 0.0),), floor=0.0))
        steady = job.seconds(self.now.workers, self.now.prefetch, in_order=self.loader.in_order)
        return steady * self.loader.batches + self.loader.fresh


def _overlap(loader: Loader, other: Loader) -> bool:
    """Return whether most of the passes of another loader lie within passes of this one."""
    both = sum(
        max(0.0, min(a.began + a.seconds, b.began + b.seconds) - max(a.began, b.began))
        for a in loader.epochs
        for b in other.epochs
    )
    return both > MOSTLY * sum(epoch.seconds for epoch in other.epochs)


def _handovers(loader: Loader) -> Sequence[float]:
    """Return the s of handovers in which the maker of the batch did nothing else; of all where that is not known."""
    if len(loader.unhindered) >= LEAST_SAMPLED:
        return loader.unhindered
    return () if loader.hindered or loader.freed else loader.deliveries


def _handing(job: Job, seconds: float) -> Job:
    """Return a job in which a batch that is made is gotten in so many s by whoever gets it."""
    return replace(job, taking=seconds) if job.pins else replace(job, delivery=seconds)


def _later(job: Job, step: Work, seconds: float) -> Work:
    """Return a step before which the training is held up for that long: it begins cold then."""
    cold = job.cold(seconds, step.cpu + job.delivery)
    return replace(step, cpu=step.cpu + cold, blocked=step.blocked + seconds)


def _cheaper(work: Work, fetch: Fetch, excess: float) -> Work:
    """Return the making of a batch without a share of its `collate_fn`."""
    saved = excess * fetch.collate * _running(fetch)
    return replace(work, cpu=max(PREPARED * work.cpu, work.cpu - saved))


def _running(fetch: Fetch) -> float:
    """Return the share of the time in which the maker of a batch wanted a CPU that it had one."""
    wanted = fetch.cpu + fetch.queued
    return fetch.cpu / wanted if wanted else 1.0


def unseen(run: Features, process: Process, job: Job) -> float:
    """Return how many CPUs those that nobody has used yet may lack: two may be threads of one core, or host others."""
    return HALF * max(0.0, job.cpus - (run.machine.job or process.cpu or 1.0) / run.machine.ranks)


def foreign(machine: Machine, process: Process) -> float:
    """Return the share of the crowd on the CPUs, beside a training process, that is not of its job."""
    others = machine.others or 0.0
    ours = max(0.0, (machine.job or 0.0) - (process.cpu or 0.0))
    return others / max(TINY, others + ours)


def doubt(run: Features) -> float:
    """Return the relative error of any prediction about a run: the model's, and what strangers on its CPUs add.

    Those whom the host of a virtual machine runs in its place are strangers as well.
    """
    taken = (run.machine.others or 0.0) + (run.machine.stolen or 0.0)
    return ERROR + CROWDED * min(1.0, taken / max(TINY, run.machine.cpus))


def unsteady(run: Features) -> float:
    """Return by how much another run may differ because the CPUs do not keep their pace, relative."""
    found = (unsteadiness(outlook.loader) for process in run.processes for outlook in known(run, process))
    return min(UNSTEADY, max(found, default=0.0))


def within(gain: Speedup, most: float) -> Speedup:
    """Return a speed-up of which no likely value lies above `most`; its interval moves along."""
    less = min(1.0, max(1.0, most) / gain.likely)
    return Speedup(low=gain.low * less, likely=gain.likely * less, high=gain.high * less, steady=gain.steady * less)


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


def known(run: Features, process: Process) -> list[Outlook]:
    """Return an outlook for every training loader of a process of which enough is known, the most waited-for first."""
    return sorted(_LATEST.of(run, process), key=lambda o: -o.loader.wait_total)


def outlooks(run: Features) -> list[Outlook]:
    """Return an outlook for every training loader of which enough is known, the most waited-for first.

    Ranks run the same line with the same settings: the one that waits most stands for all of them.
    """
    found = sorted((o for p in run.processes for o in known(run, p)), key=lambda o: -o.loader.wait_total)
    first: dict[tuple[str, Setting], Outlook] = {}
    for outlook in found:
        first.setdefault((outlook.loader.where, outlook.now), outlook)
    return list(first.values())
