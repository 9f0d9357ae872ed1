"""The model behind every predicted speed-up: DataLoader semantics replayed over what was measured.

Batch k is made by worker k mod n. It is handed out when batch k - n x prefetch_factor was received, and delivered in
the sampler's order. Making a batch takes blocked time (disk, network, sleep), which overlaps freely, and CPU time, which
competes with the other workers, with the training's own step and with foreign processes for the CPUs this job may use
(processor sharing). The training asks for its next batch when its step is over.

Nothing here reads a clock or a file: the same measurements always give the same prediction.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice

BATCHES = 240  # replayed for one prediction: enough for bursts to show, 2 ms of work
START_S = 0.015  # s to fork one worker, when none was ever started in this run
STOP_S = 0.004  # s to end one worker, likewise
SPAWN_S = 1.0  # s for a worker that imports torch anew (spawn, forkserver)
DELIVERY_S = 0.0003  # s for a batch to pass the queue, when the run has not shown it


@dataclass(frozen=True, slots=True)
class Work:
    """CPU seconds and blocked seconds of one piece of work; `width` is how many CPUs its CPU part keeps busy."""

    cpu: float
    blocked: float
    width: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What was measured of one loader and its loop: bounded series, cycled through as long as needed."""

    fetches: Sequence[Work]
    steps: Sequence[Work]
    cpus: float
    others: float = 0.0  # runnable foreign processes on those CPUs
    delivery: float = DELIVERY_S
    floor: float = 0.0  # s per batch that the device works in any case

    def seconds(self, workers: int, prefetch: int, *, in_order: bool = True, batches: int = BATCHES) -> float:
        """Return the steady time per batch under these settings, in s."""
        if workers == 0:
            return max(self.floor, self._inline(batches))
        ends = list(_play(self, workers, max(1, prefetch), batches, in_order=in_order))
        skip = min(len(ends) // 4, 4 * workers)
        return max(self.floor, (ends[-1] - ends[skip]) / (len(ends) - 1 - skip))

    def epoch(self, workers: int, prefetch: int, batches: int, *, in_order: bool = True) -> float:
        """Return the time of one pass over `batches` batches that starts with empty queues, in s."""
        if workers == 0:
            return batches * self.seconds(0, 1)
        ends = list(_play(self, workers, max(1, prefetch), min(batches, BATCHES), in_order=in_order))
        total = max(ends[-1], len(ends) * self.floor)
        if batches > len(ends):
            total += (batches - len(ends)) * self.seconds(workers, prefetch, in_order=in_order)
        return total

    def _inline(self, batches: int) -> float:
        share = min(1.0, self.cpus / (1.0 + self.others))
        total = 0.0
        for fetch, step in islice(zip(cycle(self.fetches), cycle(self.steps), strict=False), batches):
            crowd = min(1.0, self.cpus / (step.width + self.others))
            total += fetch.cpu / share + fetch.blocked + step.cpu / crowd + step.blocked
        return total / batches


def _play(job: Job, workers: int, prefetch: int, batches: int, *, in_order: bool) -> Iterator[float]:
    """Yield when each step ended, in s from the start with all queues empty.

    Two clocks: real time, and `virtual`, the CPU seconds that each runnable thread has been given so far. Every
    phase ends at a known point of one of them, so the next event is the smaller head of two heaps.
    """
    fetches = list(islice(cycle(job.fetches), batches))
    steps = list(islice(cycle(job.steps), batches))
    real: list[tuple[float, int]] = []  # (time, who): blocked phases; who = worker, or -1 for the training
    running: list[tuple[float, int]] = []  # (virtual, who): CPU phases
    now = virtual = 0.0
    crowd = job.others
    queues: list[list[int]] = [[] for _ in range(workers)]
    making: list[int | None] = [None] * workers
    ready: set[int] = set()
    sent = 0
    received = 0
    free: set[int] = set(range(workers))
    phase = "ask"
    width = 1.0

    def hand_out() -> None:
        nonlocal sent
        while sent < batches and sent < received + workers * prefetch:
            queues[sent % workers].append(sent)
            sent += 1
        for who in list(free):
            if queues[who]:
                free.discard(who)
                batch = queues[who].pop(0)
                making[who] = batch
                heapq.heappush(real, (now + fetches[batch].blocked, who))

    hand_out()
    while received < batches or phase != "ask":
        if phase == "ask":
            found = received if in_order else min(ready, default=-1)
            if found in ready:
                ready.discard(found)
                received += 1
                hand_out()
                step = steps[received - 1]
                width = step.width
                phase = "cpu"
                crowd += width
                heapq.heappush(running, (virtual + step.cpu + job.delivery, -1))
        share = min(1.0, job.cpus / crowd) if crowd > 0 else 1.0
        at_real = real[0][0] if real else math.inf
        at_cpu = now + (running[0][0] - virtual) / share if running else math.inf
        if at_real <= at_cpu:
            virtual += (at_real - now) * share
            now, who = heapq.heappop(real)
            if who >= 0:
                crowd += 1.0
                batch = making[who]
                assert batch is not None  # noqa: S101 - a worker only wakes for the batch it makes
                heapq.heappush(running, (virtual + fetches[batch].cpu, who))
                continue
        else:
            now = at_cpu
            virtual, who = heapq.heappop(running)
            if who >= 0:
                crowd -= 1.0
                batch = making[who]
                assert batch is not None  # noqa: S101 - as above
                ready.add(batch)
                making[who] = None
                free.add(who)
                hand_out()
                continue
            crowd -= width
            if steps[received - 1].blocked > 0:
                phase = "blocked"
                heapq.heappush(real, (now + steps[received - 1].blocked, -1))
                continue
        phase = "ask"
        yield now
