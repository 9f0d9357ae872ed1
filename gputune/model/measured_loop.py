"""The loop around one loader as it was measured: what its rounds take, who waits for what, and what room there is."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from gputune.core.events import STOPPING
from gputune.core.figures import NORMAL, TINY, deviation_of_mean, mean
from gputune.core.finding import MOST_TIMES, Speedup
from gputune.features import Epoch, Features, Loader, Machine, Process
from gputune.model.batch_handoff import hand_over_of
from gputune.model.concurrency import together
from gputune.model.minimum_samples import LEAST_BATCHES, LEAST_SAMPLED, alike
from gputune.model.rank_team import starved
from gputune.model.replay import TYPICAL_PREFETCH, LoopSeries
from gputune.model.workload import CROWD, entangled, step_cpu_of, stolen_from, stretched

CANDIDATES = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)  # num_workers that people type
PREFETCHES = (2, 4, 8, 16)
ENDLESS = 1_000_000  # batches: of a pass whose end nobody knows, what it pays once counts for next to nothing
ROOM = 0.8  # of what is free in /dev/shm: batches vary in size, and the run's own are in there already


@dataclass(frozen=True, slots=True)
class Setting:
    """Loader settings under which the loop is replayed."""

    workers: int
    prefetch: int
    persistent: bool
    once: bool = False  # the DataLoader is built once, whatever the run does: only then do all its passes share workers


class MeasuredLoop:
    """The loop around one loader, as it is. Ranks that meet are one loop: what is waited for is the last one's."""

    def __init__(self, run: Features, process: Process, loader: Loader, job: LoopSeries | None = None) -> None:
        self.run = run
        self.process = process
        self.original = loader
        self.beside = tuple(other for other in process.loaders if other is not loader and other.where == loader.where)
        self.loader = loader
        self._job = job
        self.now = Setting(loader.num_workers, loader.prefetch_factor or TYPICAL_PREFETCH, loader.persistent_workers)

    @cached_property
    def job(self) -> LoopSeries:
        """Return the work behind the loader's batches; of ranks that of all of them."""
        return together(self.run, self.process, self.loader) if self._job is None else self._job

    @property
    def known(self) -> bool:
        """Return whether enough was measured to predict anything."""
        loader = self.loader
        many = len(loader.waits) >= LEAST_BATCHES and len(loader.fetches) >= LEAST_BATCHES
        return self.process.loop > 0 and (many or bool(loader.fetches and alike(loader)))

    # ---- what it takes, in s

    @cached_property
    def per_batch(self) -> float:
        """Return the measured steady time per batch, in s."""
        loader = self.loader
        return (sum(loader.waits) + sum(loader.steps)) / max(1, len(loader.waits))

    @cached_property
    def passes(self) -> list[Epoch]:
        """Return the passes that gave batches."""
        return [epoch for epoch in self.loader.epochs if epoch.batches]

    @cached_property
    def between(self) -> float:
        """Return the s of the loop that lie between its rounds: evaluations, other loaders."""
        known = self.loader.mean_round
        rounds = self.per_batch * self.batches
        if known is not None:  # the latest rounds may have another pace than those before them
            rounds += (known - self.per_batch) * self.loader.batches
        return max(0.0, self.whole - rounds - self.starts)

    @cached_property
    def starts(self) -> float:
        """Return the s of the loop in which passes begin and end."""
        return sum(e.start + e.picking + e.first_wait + e.shutdown for e in self.passes)

    @cached_property
    def to_come(self) -> int:
        """Return how many batches the pass under way is still to give; 0 in a run that is over.

        As many as those before it gave, else as the loader says; of a stream the end is nowhere near. What a pass pays
        once, as for starting workers, would weigh too much in its first twenty batches.
        """
        passes = self.passes
        if self.run.exit_code is not None or not passes or passes[-1].complete:
            return 0
        usual = max((e.batches for e in passes[:-1]), default=self.loader.length or ENDLESS)
        return max(0, usual - passes[-1].batches)

    @cached_property
    def batches(self) -> int:
        """Return how many batches the loop gives, to the end of the pass under way."""
        return self.loader.batches + self.to_come

    @cached_property
    def whole(self) -> float:
        """Return the s of the loop, to the end of the pass under way at the pace that it has."""
        return self.process.loop + self.to_come * self.per_batch

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
    def making_cpu(self) -> float:
        """Return the mean CPU s that one batch takes to make."""
        return mean(f.cpu for f in self.loader.fetches)

    @cached_property
    def making_wanted(self) -> float:
        """Return the mean s for which one batch needs a CPU, with what the host of a virtual machine stole of them."""
        return self.making_cpu + stolen_from(self.making_cpu, self.making - self.making_cpu, stretched(self.run))

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
    def stepping(self) -> float:
        """Return the mean s from the return of a next() to the following one."""
        return mean(self.loader.steps)

    @cached_property
    def stepping_alone(self) -> float:
        """Return the same without what a rank stands where it meets others, where it is replayed together with them."""
        return mean(s.cpu + s.blocked for s in self.job.steps) if self.job.mates else self.stepping

    @cached_property
    def step_cpu(self) -> float:
        """Return the mean CPU s that the training process itself needs per step."""
        return step_cpu_of(self.loader)

    # ---- who waits for what, as shares of its time

    @cached_property
    def waiting(self) -> float:
        """Return the share of the steady time per batch that is spent waiting for batches to be made or to arrive."""
        total = sum(self.loader.waits) + sum(self.loader.steps)
        return sum(self.loader.for_batches) / total if total else 0.0

    @cached_property
    def starving(self) -> float:
        """Return the share of its time for which the job waits for batches: of ranks, for whichever's is the last."""
        together = starved(self.run) if self.job.mates else None
        return self.waiting if together is None else together

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

    @property
    def training(self) -> list[Loader]:
        """Return the loaders of its process that give training batches."""
        return [loader for loader in self.process.loaders if loader.training]

    @cached_property
    def other_loops(self) -> float:
        """Return the s between the rounds of this loader that are rounds of others: loops before or after its own."""
        others = [loader for loader in self.training if loader.where != self.loader.where]
        return min(self.between, sum((mean(x.waits) + mean(x.steps)) * x.batches for x in others))

    @cached_property
    def elsewhere(self) -> Mapping[str, float]:
        """Return the mean s of a step in which the training waits for other loaders, drawn from side by side, by place.

        Their waits, as far as they come within passes of this one, and never more than the step.
        """
        found: dict[str, float] = {}
        for other in self.training:
            if other is not self.original and _overlap(self.loader, other):
                found[other.where] = found.get(other.where, 0.0) + other.wait_total / max(1, self.loader.batches)
        return found if sum(found.values()) < self.stepping else {}

    @cached_property
    def ceiling(self) -> Speedup | None:
        """Return what it would bring to wait for no batch at all, as rounds show in which they lay ready.

        That is measured, and more than anything can bring that has batches made sooner. None where too few rounds did.
        Each is held against the rounds right before it, and the share that it spares is taken of all rounds: a loop
        that changes its pace has other ones now than when it was tried.
        """
        rounds = self.loader.filled
        if len(rounds) < LEAST_SAMPLED or not self.now.workers:
            return None
        paused = sum(mean(series) for name, series in self.loader.pauses.items() if name in STOPPING)
        usual, ready = mean(self.loader.unfilled), mean(rounds)
        error = NORMAL * deviation_of_mean(rounds)
        if self._behind > error:  # a host's rounds are not the loop's
            return None
        error += NORMAL * deviation_of_mean(self.loader.unfilled) * ready / usual
        waiting = max(0.0, self.whole - self.between - self.starts) * (1 - paused / max(TINY, self.per_batch))

        def gain(each: float) -> float:
            spared = max(0.0, 1 - each / usual) * waiting + sum(e.first_wait for e in self.loader.epochs)
            return min(MOST_TIMES, self.whole / max(TINY, self.whole - spared))

        return Speedup(low=gain(ready + error), likely=gain(ready), high=gain(max(TINY, ready - error)))

    @property
    def _behind(self) -> float:
        """Return the s by which a device is behind its host where a round ends."""
        timed = self.process.device_step
        if timed is None or timed.lag is None:
            return math.inf if self.process.works else 0.0
        return timed.lag

    # ---- what room there is

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

    def queued_batches(self) -> float:
        """Return how many finished batches of this rank find room in /dev/shm; endless where that is not known."""
        free, size = self.run.machine.shm_free, self.loader.batch_bytes if self.loader.batch_shared else None
        if free is None or not size:
            return float(CANDIDATES[-1] * PREFETCHES[-1])
        return free * ROOM / size / self.run.machine.ranks


def _overlap(loader: Loader, other: Loader) -> bool:
    """Return whether most of the passes of another loader lie within passes of this one."""
    both = sum(
        max(0.0, min(a.began + a.seconds, b.began + b.seconds) - max(a.began, b.began))
        for a in loader.epochs
        for b in other.epochs
    )
    # Two loaders whose passes overlap for more than 0.5 of the time are drawn from side by side
    return both > 0.5 * sum(epoch.seconds for epoch in other.epochs)


def foreign(machine: Machine, process: Process) -> float:
    """Return the share of the crowd on the CPUs, beside a training process, that is not of its job."""
    others = machine.others or 0.0
    ours = max(0.0, (machine.job or 0.0) - (process.cpu or 0.0))
    return others / max(TINY, others + ours)
