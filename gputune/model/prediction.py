"""What a change would buy, as a ratio of samples/s: the one place that turns features into predictions.

Loader settings are replayed (`replay.py`) over the work that was measured (`workload.py`), and the replay of the
present settings is held against the loop as it was: by how much it took longer, any other does as well (one factor).
Every prediction is an interval: what the replay of the present settings does not explain widens it, and how well the
mean round is known.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from gputune.core.figures import NORMAL, TINY, mean
from gputune.core.finding import ERROR, LEAST_TIMES, MOST_TIMES, Speedup, interval
from gputune.features import Epoch, Features, Loader, Process
from gputune.features.concurrent_loaders import ALONE
from gputune.model import shard_imbalance
from gputune.model.batch_handoff import GOTTEN_S
from gputune.model.concurrency import changed
from gputune.model.in_turns import without_workers
from gputune.model.measured_loop import CANDIDATES, PREFETCHES, MeasuredLoop, Setting, foreign
from gputune.model.replay import LoopSeries, Work
from gputune.model.round_spread import error_of_mean
from gputune.model.workload import CROWD

__all__ = ["CANDIDATES", "ERROR", "MOST_TIMES", "PREFETCHES", "Setting", "foreign", "interval"]

START_S = 0.008  # s to fork one worker, when this run has started none (torch 2.13, Linux: 6 to 10 ms)
STOP_S = 0.003  # s to end one worker, likewise
RESET_S = 0.0015  # s for each worker that persists until the first batch is on its way again, beyond making it
SPAWN_S = 1.0  # s for a worker that imports torch anew (spawn, forkserver)
FIRST_S = 0.012  # s until a fresh worker's first batch is on its way, beyond making it
GOOD_ENOUGH = 1.03  # a smaller setting this close to the best one is the better advice
STRESS = 1.15  # blocked times for which a number of workers must still do: storage is slower at other hours
PERSIST_GAIN = 1.1  # workers that persist must be this much better before more workers are advised only with it


class Outlook(MeasuredLoop):
    """The loop around one loader, ready to be asked what other settings or other work would give."""

    def __init__(self, run: Features, process: Process, loader: Loader, job: LoopSeries | None = None) -> None:
        super().__init__(run, process, loader, job)
        self._loops: dict[Setting, float] = {}

    # ---- the same loop otherwise

    def altered(self, job: LoopSeries | None, loader: Loader | None = None) -> "Outlook":
        """Return the outlook for this very loop over other work, or by another loader."""
        other = Outlook(self.run, self.process, loader or self.loader, None if job is None else changed(self.job, job))
        other.beside, other.original = self.beside, self.original
        return other

    def by_itself(self) -> "Outlook":
        """Return the outlook for settings that this loader gets, and none of the others that its line builds."""
        return self.altered(self.job, replace(self.loader, company=ALONE))

    def with_room(self) -> "Outlook":
        """Return the outlook for this loop where /dev/shm has room for whatever workers make."""
        roomy = replace(self.run, machine=replace(self.run.machine, shm_free=None))
        return Outlook(roomy, self.process, self.original, self.job)

    # ---- how long it takes

    def loop(self, setting: Setting) -> float:
        """Return the replayed time of the whole loop under these settings, in s."""
        if setting not in self._loops:
            self._loops[setting] = self._loop(setting)
        return self._loops[setting]

    def _loop(self, setting: Setting) -> float:
        lengths = [e.batches for e in self.passes] or [self.loader.batches]
        lengths[-1] += self.to_come
        built = {number for number, e in enumerate(self.passes) if e.fresh and not setting.once} | {0}
        each = {batches: self.epoch(setting, batches) for batches in set(lengths)}
        total = sum(each[batches] for batches in lengths)
        if setting.workers:
            starts = len(built) if setting.persistent else len(lengths)
            total += starts * self.starting(setting.workers) + (len(lengths) - starts) * self.resetting(setting.workers)
        if setting.workers and setting.persistent:  # these end with their DataLoader: the last ones after the loop
            total -= self.ending(setting.workers)
        return total * self.batches / max(1, sum(lengths))

    def epoch(self, setting: Setting, batches: int) -> float:
        """Return the s of a pass; no shorter than its longest part, while the workers that have parts are as many."""
        seconds = self.job.epoch(setting.workers, setting.prefetch, batches, in_order=self.loader.in_order)
        return max(seconds, self.part * batches) if setting.workers == self.now.workers else seconds

    @property
    def part(self) -> float:
        """Return the s for each batch of a pass that the longest part of an iterable dataset takes alone; else 0."""
        return shard_imbalance.longest(self.loader, self.job.fetches)

    def starting(self, workers: int) -> float:
        """Return what an epoch pays to start and end `workers` workers, in s: as measured, else as known of torch."""
        fresh = self._fresh()
        if fresh:
            first = mean(max(0.0, e.first_wait - self.arriving) for e in fresh)
            paid = mean(e.start + self.one_by_one(e) for e in fresh)
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
        fresh = [e for e in self.passes if e.start > 0] if self.loader.num_workers else []
        return fresh[:1] + [e for e in fresh[1:] if e.fresh] if self.loader.persistent_workers else fresh

    def one_by_one(self, epoch: Epoch) -> float:
        """Return what an epoch waits longer for the first batches of its other workers than for any: they are late."""
        others = min(self.loader.num_workers, epoch.batches) - 1
        return max(0.0, epoch.others_first - others * mean(self.loader.waits))

    def resetting(self, workers: int) -> float:
        """Return what an epoch pays to set lasting workers to work again, in s: as measured, else as seen of torch."""
        again = [e for e in self.passes[1:] if not e.fresh]
        if not self.loader.persistent_workers or not self.loader.num_workers or not again:
            return workers * RESET_S
        return mean(e.start + max(0.0, e.first_wait - self.arriving) for e in again)

    def fastest(self, pinned_at: float = 0.0, computing: float = 0.0) -> float:
        """Return the s that this loop's batches would take if no step took any time: what the loader can do at best.

        But for `computing` s of a CPU, which the workers may want too. With `pinned_at`, where no thread pins batches
        yet, one does so with so many B/s.
        """
        pinned = self.pinned_at(self.job, pinned_at)
        job = changed(pinned, replace(pinned, steps=(Work(computing, 0.0),), floor=0.0))
        steady = job.seconds(self.now.workers, self.now.prefetch, in_order=self.loader.in_order)
        return steady * self.loader.batches + self.loader.fresh

    def pinned_at(self, job: LoopSeries, rate: float) -> LoopSeries:
        """Return a job whose batches a thread pins with so many B/s, taking them as the training does now.

        The job as it is where one pins them already, or where that rate is not known (0).
        """
        size = self.loader.batch_bytes or 0
        if not rate or not size or job.pins:
            return job
        return changed(job, replace(job, pins=(Work(size / rate, 0.0),), taking=job.delivery, delivery=GOTTEN_S))

    # ---- what that buys

    def gain(self, setting: Setting, job: LoopSeries | None = None) -> Speedup:
        """Return what `setting` (and `job`, where the work itself changes) would buy over how the loop is now."""
        other = self if job is None else self.altered(job)
        found = self.compared(self.loop(self.now), other.loop(setting))
        return found if setting.workers == self.now.workers else self._beside_strangers(found, other, setting)

    def _beside_strangers(self, found: Speedup, other: "Outlook", setting: Setting) -> Speedup:
        """Return what other numbers of workers buy where strangers keep what they use of the CPUs, or give way.

        The replay shares the CPUs evenly among all who want one. But a kernel moves no thread to where it would only
        change places with another: three threads on two CPUs stay one and two, and the training may be of the two. And
        strangers that are there while nobody wants their CPU may not be in the way at all.
        """
        used = (self.run.machine.others or 0.0) / self.run.machine.ranks
        if used < CROWD:
            return found
        for cpus in (max(0.1, self.job.cpus - used), self.job.cpus):
            now, then = (each.altered(replace(each.job, cpus=cpus, others=0.0)) for each in (self, other))
            either = self.compared(now.loop(self.now), then.loop(setting))
            found = replace(found.down_to(either), high=max(found.high, either.high))
        return found

    def instead(self, loader: Loader, job: LoopSeries | None = None) -> Speedup:
        """Return what it would buy if the loader were this one, with its settings as they are."""
        return self.compared(self.loop(self.now), self.altered(job, loader).loop(self.now))

    def compared(self, now: float, then: float) -> Speedup:
        """Return what a loop that is replayed in `then` s buys, where the present one is in `now`.

        What lies between rounds stays. What the rounds took times the replay of the present settings, they are taken to
        take times any other; at the least it is a price that each round pays whatever the settings. The replay's error
        is a share of the present round, in s: where little of that is left, it is much of the rest. Half of what the
        replay does not explain widens the interval as well, and so does how well the mean round is known.
        """
        likely = in_proportion(self.whole, now, then, between=self.between)
        fixed = self.whole / max(TINY, self.whole + then - now)
        known = now + min(max(0.0, self.whole - now), self.other_loops)
        off = min(1.0, abs(self.whole - known) / max(TINY, self.whole))
        return around(likely, ERROR * max(1.0, likely) + 0.5 * off, self.unsure, fixed)

    @property
    def unsure(self) -> float:
        """Return how well the mean round of this loop is known, relative, with 95 %: by means of stretches of it."""
        rounds = [wait + step for wait, step in zip(self.loader.waits, self.loader.steps, strict=True)]
        return NORMAL * (error_of_mean(rounds) or 0.0)

    def _reached(self, found: Speedup) -> Speedup:
        """Return a gain of batches that are made sooner, no higher than where none is waited for."""
        ceiling = self.ceiling
        if ceiling is None:
            return found
        found = within(found, ceiling.likely)
        return replace(found, high=max(found.likely, min(found.high, ceiling.high)))

    def with_picked(self, share: float) -> Speedup:
        """Return what it would buy if the batch sampler took only `share` of its time in the training process."""
        picks = tuple(Work(p.cpu * share, p.blocked) for p in self.job.picks)
        return self.gain(self.now, replace(self.job, picks=picks))

    def out_of_order(self) -> Speedup:
        """Return what it would buy to take batches as they come."""
        return self._reached(self.instead(replace(self.loader, in_order=False)))

    def shared_out(self) -> Speedup | None:
        """Return what it would buy if each worker had a share of the longest part; None where none is longer.

        Likely in turn with the rest; at the least each worker makes its shares of one part after the other.
        """
        loader = self.loader
        if shard_imbalance.longest_part(loader) is None:
            return None
        least = self.instead(replace(loader, fetches=shard_imbalance.one_by_one(loader.fetches)))
        return self.instead(replace(loader, fetches=shard_imbalance.in_turn(loader.fetches))).down_to(least)

    # ---- which settings are best

    def best_workers(self) -> tuple[int, bool, Speedup]:
        """Return the smallest num_workers that is about as good as any, whether they must persist, and the gain."""
        most = self.most_workers()
        numbers = [n for n in CANDIDATES if n <= most] or [1]
        plain = self._smallest(numbers, persistent=self.now.persistent)
        lasting = self._smallest(numbers, persistent=True)
        persistent = self.now.persistent or self.loop(lasting) * PERSIST_GAIN < self.loop(plain)
        chosen = lasting if persistent else plain
        now, then = self.loop(self.now), self.loop(chosen)
        # Whether a dataset cuts its longest part again for more workers is not known: at the worst it stays whole. And
        # CPU time is conserved: what the job burns for a batch, and nobody saw who for, it does under any settings.
        least = self.compared(now, max(then, self.part * self.batches, self.burnt * self.batches))
        found = self.gain(chosen).down_to(least)
        anew = persistent and not self.now.persistent  # what starting workers takes is no wait for a batch
        return chosen.workers, persistent, found if anew else self._reached(found)

    @property
    def burnt(self) -> float:
        """Return the s of all CPUs of this rank that its job uses for a batch; 0 where that was not measured."""
        machine = self.run.machine
        return (machine.job or 0.0) / machine.ranks * self.per_batch / max(TINY, self.job.cpus)

    @cached_property
    def in_turns(self) -> Speedup | None:
        """Return what it brings to have no workers, as measured; None where it was not."""
        return without_workers(self)

    @cached_property
    def no_workers(self) -> Speedup | None:
        """Return the same where that is faster than now, and no other number of workers is sure to be better still."""
        found = self.in_turns
        if found is None or found.sure <= 1:
            return None
        others = [self._spared(replace(self.now, workers=n)) for n in CANDIDATES if n < self.now.workers]
        best = max(other.sure for other in (*others, self.best_workers()[2]))
        return found if found.likely >= best else None

    def fewer_workers(self) -> tuple[int, Speedup] | None:
        """Return the smallest num_workers below the present one that is about as good as any of these, and the gain.

        None at all among them, as a sweep tries it too, unless that was measured (`no_workers`). Nothing where the
        present ones, or more, are better.
        """
        known = self.in_turns is not None
        numbers = [n for n in (0, *CANDIDATES) if n < self.now.workers and not (known and n == 0)]
        if not numbers or self.best_workers()[0] > self.now.workers:
            return None
        tried = {n: replace(self.now, workers=n, persistent=self.now.persistent and n > 0) for n in numbers}
        chosen = _least(tried, {n: self.loop(setting) for n, setting in tried.items()})
        found = self._spared(chosen)
        return (chosen.workers, found) if found.likely > 1 else None

    def _spared(self, fewer: Setting) -> Speedup:
        """Return what fewer workers buy; that they start sooner counts only where they start again and again."""
        if len(self.passes) > 1:
            return self.gain(fewer)
        return self.compared(*(self.epoch(setting, self.batches) for setting in (self.now, fewer)))

    def _smallest(self, numbers: Sequence[int], *, persistent: bool) -> Setting:
        """Choose for batches a little slower than measured: advice on the very edge would be taken back next time."""
        stressed = replace(self.job, fetches=tuple(replace(f, blocked=f.blocked * STRESS) for f in self.job.fetches))
        other = self.altered(stressed)
        tried = {n: Setting(n, self.now.prefetch, persistent) for n in numbers}
        return _least(tried, {n: other.loop(setting) for n, setting in tried.items()})

    def best_prefetch(self) -> tuple[int, Speedup]:
        """Return the smallest prefetch_factor that is about as good as any, and what it would buy."""
        most = max(self.now.prefetch, self.queued_batches() / self.loader.company.iterated / max(1, self.now.workers))
        factors = [p for p in PREFETCHES if p <= most] or [self.now.prefetch]
        tried = {p: replace(self.now, prefetch=p) for p in factors}
        chosen = _least(tried, {p: self.loop(setting) for p, setting in tried.items()})
        return chosen.prefetch, self._reached(self.gain(chosen))


def _least(tried: dict[int, Setting], seconds: dict[int, float]) -> Setting:
    """Return the smallest of some settings that is about as good as the best of them."""
    best = min(seconds.values())
    return tried[min(number for number, lasts in seconds.items() if lasts <= best * GOOD_ENOUGH)]


def in_proportion(measured: float, now: float, then: float, *, between: float = 0.0) -> float:
    """Return how many times as fast a loop is that is replayed in `then` s, where the present one is in `now`.

    It took `measured` s, of which those `between` its rounds stay. What the rounds took times the replay of the present
    settings, they are taken to take times any other.
    """
    return measured / max(TINY, between + then * max(TINY, measured - between) / max(TINY, now))


def around(likely: float, width: float, unsure: float, least: float = MOST_TIMES) -> Speedup:
    """Return a speed-up that may be wrong by a share `width` of it either way, and no less than `least`.

    And more by what is `unsure` about the pace of the run, which makes no cause less sure.
    """
    likely = min(max(likely, LEAST_TIMES), MOST_TIMES)
    low, steady = (max(LEAST_TIMES, min(likely, least) / (1 + wide)) for wide in (width + unsure, width))
    return Speedup(low=low, likely=likely, high=likely * (1 + width + unsure), steady=steady)


def unsteady(run: Features) -> float:
    """Return how well the rounds of a run are known, relative: of the loop of which least is known."""
    return max((outlook.unsure for process in run.processes for outlook in known(run, process)), default=0.0)


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
