"""The model behind every predicted speed-up: DataLoader semantics replayed over what was measured.

Batch k is made by worker k mod n. It is handed out when batch k - n x prefetch_factor was received, and delivered in
the sampler's order (without `in_order`: as they are made, and the next one goes to a worker that has room). Making a
batch takes blocked time (latency, network, sleep), which overlaps freely, time of a disk that is at its limit, which
all readers share, and CPU time, which competes with the other workers, with the training's own step and with foreign
processes for the CPUs that this job may use (processor sharing; threads of one step wait for each other). The training
asks for its next batch when its step is over. A worker that computes its next batch holds the GIL, which it needs to
hand the last one over: the training waits for that, until the next one is made or `late` s have passed. With `pins`,
a thread of the training process stands between the workers and the training: it takes batches in the order in which
they are made, waits for their makers like that, and hands them on when they are pinned, while the training goes on.

Ranks that meet (`mates`) are replayed together, each with its own loader: a step is over when the last of them has come
and `exchange` s have passed, and the workers of those that stand there work on.

Nothing here reads a clock or a file: the same measurements always give the same prediction.

Over 300 lines because what is replayed and the replay are one model.
"""

import heapq
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice

from gputune.core.figures import TINY, mean

BATCHES = 240  # replayed for one prediction: enough for bursts to show, about 2 ms of work
MOST_BATCHES = 960  # where rare slow ones would be missed or met too often in fewer
UNLIKE = 0.03  # of their mean time: the batches that are replayed take no more or less than those that they stand for
FEWEST, MOST_OF_ALL = 60, 1920  # batches of each rank at the least where many are replayed together, and of all ranks
ROUNDS = 8  # batches that each of many workers makes in a replay at the least, that the last round weighs little
RUN = 30  # neighbours that stay together when a long series is thinned out: longer than a queue
TYPICAL_PREFETCH = 2  # torch's own default
DELIVERY_S = 0.0011  # s for a small batch to pass the queue, when the run has not shown it (measured: 0.9 to 2.0 ms)
ALONE = 1.25  # CPUs that a step keeps busy: with less, most of it is no team's work
TEAM = 2.0  # threads: of a larger team it is not known by how much more often one of them has no CPU


@dataclass(frozen=True, slots=True)
class Work:
    """CPU seconds and blocked seconds of one piece of work; `width` is how many CPUs its CPU part keeps busy.

    Its threads wait for each other (`tied`), as those of torch do, or share out what is left among those that run.
    `disk` are the seconds that a disk at its limit needs for it if nobody else reads: readers wait for each other.
    """

    cpu: float
    blocked: float
    width: float = 1.0
    disk: float = 0.0
    tied: bool = True

    def pace(self, share: float, makers: int = 0) -> float:
        """Return at what part of its pace it gets on where each runnable thread has a CPU for `share` of the time.

        Threads that wait for one that has none keep their CPUs meanwhile: OpenMP spins. And an operation of such a team
        is shorter than a turn at a CPU: whoever of the `makers` of batches takes one, it stands until he has had his.
        """
        if not self.tied:
            return share
        makers = makers if self.width > ALONE else 0
        return max(TINY, float(share ** (min(TEAM, self.width) + makers)))


NOTHING = Work(0.0, 0.0)


def spread(series: Sequence[Work], count: int) -> list[Work]:
    """Return `count` entries of a series: cycled through if it is shorter, else runs of neighbours from all over it.

    Neighbours, so that bursts stay bursts; from all over, so that a loop that drifts is replayed as it was on average.
    """
    if len(series) <= count:
        return list(islice(cycle(series), count))
    runs = max(1, count // RUN) if count >= 4 * RUN else min(4, count)
    found: list[Work] = []
    for number in range(runs):
        size = count * (number + 1) // runs - count * number // runs
        start = (len(series) - size) * number // max(1, runs - 1)
        found.extend(series[start : start + size])
    return found


def _alike(series: Sequence[Work]) -> bool:
    """Return whether `BATCHES` of a series take about as long as all of it: rare slow ones are as rare among them."""
    if len(series) <= BATCHES:
        return True
    whole = mean(map(_lasting, series))
    return abs(mean(map(_lasting, spread(series, BATCHES))) - whole) <= UNLIKE * whole


def _lasting(work: Work) -> float:
    return work.cpu + work.blocked + work.disk


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSeries:
    """What was measured of one loader and its loop: bounded series, cycled through as long as needed."""

    fetches: Sequence[Work]
    steps: Sequence[Work]
    cpus: float
    others: float = 0.0  # runnable foreign processes on those CPUs
    delivery: float = DELIVERY_S
    taking: float = 0.0  # s in which a thread that pins batches takes one from its maker
    pins: Sequence[Work] = ()  # what it then takes for each; () where there is none, and the training takes them itself
    late: float = 0.0  # s that it takes longer as long as the batch's maker computes another one
    floor: float = 0.0  # s per batch that the device works in any case
    picks: Sequence[Work] = ()  # the batch sampler's, before each step: in the training's own process, with workers too
    mates: "Sequence[LoopSeries]" = ()  # of the other ranks, with the same settings, whom it meets at the end of steps
    exchange: float = 0.0  # s that such a meeting takes once all are there
    every: int = 1  # steps from one meeting to the next

    def seconds(self, workers: int, prefetch: int, *, in_order: bool = True) -> float:
        """Return the steady time per batch under these settings, in s."""
        batches = self._enough()
        if workers == 0:
            return max(self.floor, self._inline(batches))
        ends = _play(self, workers, max(1, prefetch), max(batches, ROUNDS * workers), in_order=in_order)
        return self._steady(ends, workers)

    def _enough(self) -> int:
        """Return how many batches to replay, so that they are like all that were measured."""
        alike = all(map(_alike, (self.fetches, self.steps, self.picks, self.pins)))
        enough = BATCHES if alike else min(MOST_BATCHES, max(len(self.fetches), len(self.steps)))
        return max(FEWEST, min(enough, MOST_OF_ALL // (1 + len(self.mates))))

    def epoch(self, workers: int, prefetch: int, batches: int, *, in_order: bool = True) -> float:
        """Return the time of one pass over `batches` batches that starts with empty queues, in s."""
        if workers == 0:
            return batches * self.seconds(0, 1)
        played = min(batches, max(self._enough(), ROUNDS * workers))
        if batches <= BATCHES // 2 and batches < max(map(len, (self.fetches, self.steps, self.picks, self.pins))):
            return self._short(workers, max(1, prefetch), batches, in_order=in_order)
        ends = _play(self, workers, max(1, prefetch), played, in_order=in_order)
        total = max(ends[-1], played * self.floor)
        if batches > played:
            total += (batches - played) * self._steady(ends, workers)
        return total

    def _short(self, workers: int, prefetch: int, batches: int, *, in_order: bool) -> float:
        """Return the mean time of short passes, in s: each has other batches, for a few are not like all."""
        enough = min(BATCHES, self._enough())
        count = max(batches, enough - enough % batches)
        total = 0.0
        for start in range(0, count, batches):
            job = self._stretch(start, batches, count)
            total += max(_play(job, workers, prefetch, batches, in_order=in_order)[-1], batches * self.floor)
        return total * batches / count

    def _stretch(self, start: int, batches: int, count: int) -> "LoopSeries":
        """Return so many batches in a row, out of `count` that stand for all."""
        pins = spread(self.pins, count) if self.pins else []
        series = (spread(self.fetches, count), spread(self.steps, count), self.picked(count), pins)
        fetches, steps, picks, pins = (each[start : start + batches] for each in series)
        mates = tuple(mate._stretch(start, batches, count) for mate in self.mates)
        return replace(self, fetches=fetches, steps=steps, picks=picks, pins=pins, mates=mates)

    def picked(self, batches: int) -> list[Work]:
        """Return what the batch sampler takes before each of so many steps; nothing where it never took long."""
        return spread(self.picks, batches) if self.picks else [NOTHING] * batches

    def _steady(self, ends: Sequence[float], workers: int) -> float:
        skip = min(len(ends) // 4, 4 * workers)  # the queues fill up
        return max(self.floor, (ends[-1] - ends[skip]) / (len(ends) - 1 - skip))

    def _inline(self, batches: int) -> float:
        """Return the mean s of a batch that is made in turns with its step; of ranks the last one counts."""
        each = [self._in_turns(batches), *(mate._in_turns(batches) for mate in self.mates)]
        rounds = range(0, batches, self.every)
        return sum(max(sum(mine[at : at + self.every]) for mine in each) + self.exchange for at in rounds) / batches

    def _in_turns(self, batches: int) -> list[float]:
        share = min(1.0, self.cpus / (1.0 + self.others))
        found = []
        pinning = mean(pin.cpu / share + pin.blocked for pin in self.pins)  # by the training itself
        series = zip(self.picked(batches), spread(self.fetches, batches), spread(self.steps, batches), strict=True)
        for pick, fetch, step in series:
            crowd = step.pace(min(1.0, self.cpus / (step.width + self.others)))
            making, stepping = fetch.cpu / share + fetch.blocked + fetch.disk, step.cpu / crowd + step.blocked
            found.append(pick.cpu / share + pick.blocked + pinning + making + stepping)
        return found


def _play(job: LoopSeries, workers: int, prefetch: int, batches: int, *, in_order: bool) -> list[float]:
    """Return when each step ended, in s from the start with all queues empty."""
    plays = [_Play(one, workers, prefetch, batches, in_order=in_order) for one in (job, *job.mates)]
    every = job.every if job.mates else batches
    for due in (*range(every, batches, every), batches):
        for play in plays:
            while len(play.ends) < due:
                play.advance()
        if job.mates:
            together = max(play.now for play in plays) + job.exchange
            for play in plays:
                play.met(together)
    return plays[0].ends


TRAINING, PINNER, MET = -1, -2, -3  # who: the training; the thread that pins all batches; ranks; workers are 0 and up


class _Play:
    """One replay under way.

    It has three clocks: real time, `virtual`, the CPU seconds that each runnable thread was given so far, and `turned`,
    the seconds of the disk that each reader was given. Every phase ends at a known point of one of them, so the next
    event is the smallest head of three heaps.
    """

    def __init__(self, job: LoopSeries, workers: int, prefetch: int, batches: int, *, in_order: bool) -> None:
        self.job = job
        self.cpus = job.cpus
        self.fetches = spread(job.fetches, batches)
        self.steps = spread(job.steps, batches)
        self.picks = job.picked(batches)
        self.prefetch = prefetch
        self.in_order = in_order
        self.ends: list[float] = []
        self.now = self.virtual = self.turned = 0.0
        self.crowd = job.others  # runnable threads
        self.blocked: list[tuple[float, int]] = []  # (real time, who)
        self.running: list[tuple[float, int]] = []  # (virtual time, who)
        self.reading: list[tuple[float, int]] = []  # (disk's time, who)
        self.queues: list[deque[int]] = [deque() for _ in range(workers)]
        self.making = [-1] * workers
        self.pins = spread(job.pins, batches) if job.pins else []
        self.pinning = -1  # the batch that is being pinned
        self.pinned = 0
        self.made: deque[int] = deque()  # batches that are to be, in the order in which they were made
        self.ready: dict[int, None] = {}  # batches that the training may take, in the order in which they became so
        self.held = [0] * workers  # batches handed out to each and not yet received
        self.maker: dict[int, int] = {}
        self.sent = self.received = 0
        self.turn = -1
        self.computers: set[int] = set()  # workers in the CPU part of a batch
        self.handing = -1  # who hands a batch over while it computes another one, until
        self.until = math.inf
        self.step: Work | None = None  # the training's: that of the batch which it is getting, or that is under way
        self.meeting = False  # the training has made its step, and stands where ranks meet
        self.getting = False
        self.computing = math.inf  # s for which its CPU part still takes at full pace
        self._hand_out()

    def advance(self) -> None:
        """Let the training take a batch if it waits for one that is there; then go on to the next event."""
        if self.handing < 0 and self.made and self.pinning < 0:
            self._hand_over(self.made[0])
        if self.step is None and (self.pins or self.handing < 0) and not self.meeting:
            self._receive()
        share = self.cpus / self.crowd if self.crowd > self.cpus else 1.0
        together = share if self.step is None or self.getting else self.step.pace(share, len(self.computers))
        at, event = self.until, self._handed
        if self.blocked and self.blocked[0][0] < at:
            at, event = self.blocked[0][0], self._woken
        if self.computing < math.inf and self.now + self.computing / together < at:
            at, event = self.now + self.computing / together, self._computed_step
        if self.running and self.now + (self.running[0][0] - self.virtual) / share < at:
            at, event = self.now + (self.running[0][0] - self.virtual) / share, self._computed
        readers = len(self.reading)
        if readers and self.now + (self.reading[0][0] - self.turned) * readers < at:
            at, event = self.now + (self.reading[0][0] - self.turned) * readers, self._read
        passed = at - self.now
        self.now = at
        self.virtual += passed * share
        self.computing -= passed * together
        if readers:
            self.turned += passed / readers
        event()

    def met(self, at: float) -> None:
        """Let the step that is over last until all ranks have met: its workers go on meanwhile."""
        self.ends[-1] = at
        self.meeting = True
        heapq.heappush(self.blocked, (at, MET))

    def _hand_out(self) -> None:
        allowance = len(self.queues) * self.prefetch
        while self.sent < len(self.fetches) and self.sent < self.received + allowance:
            who = self._next()
            self.queues[who].append(self.sent)
            self.maker[self.sent] = who
            self.held[who] += 1
            self.sent += 1
            if self.making[who] < 0:
                self._start(who)

    def _start(self, who: int) -> None:
        """Let a worker go on to its next batch, if it has one."""
        if not self.queues[who]:
            return
        self.making[who] = self.queues[who].popleft()
        fetch = self.fetches[self.making[who]]
        if fetch.blocked > 0:
            heapq.heappush(self.blocked, (self.now + fetch.blocked, who))
        else:
            self._wait_no_more(who, fetch)

    def _next(self) -> int:
        """Return whose turn it is; without order, a worker that is behind is passed over."""
        while True:
            self.turn = (self.turn + 1) % len(self.queues)
            if self.in_order or self.held[self.turn] < self.prefetch:
                return self.turn

    def _receive(self) -> None:
        found = self._wanted()
        if found in self.ready and self.pins:
            self._take(found)
        elif found in self.ready:
            self._hand_over(found)

    def _hand_over(self, found: int) -> None:
        """Let its maker hand a batch over to who takes it, which needs the GIL of a maker that is at work."""
        maker = self.maker[found]
        if self.job.late > 0 and maker in self.computers:
            self.handing, self.until = maker, self.now + self.job.late
        else:
            self._handed()

    def _wanted(self) -> int:
        """Return the batch that the training gets next; without order, the first that is there."""
        return next(iter(self.ready)) if self.ready and not self.in_order else self.received

    def _handed(self) -> None:
        self.handing, self.until = -1, math.inf
        if self.pins:
            self._pin()
        else:
            self._take(self._wanted())

    def _pin(self) -> None:
        """Let its thread pin the batch that was made first."""
        self.pinning = self.made.popleft()
        blocked = self.pins[self.pinned].blocked
        if blocked > 0:
            heapq.heappush(self.blocked, (self.now + blocked, PINNER))
        else:
            self._copy()

    def _copy(self) -> None:
        self.crowd += 1.0
        heapq.heappush(self.running, (self.virtual + self.job.taking + self.pins[self.pinned].cpu, PINNER))
        self.pinned += 1

    def _take(self, found: int) -> None:
        del self.ready[found]
        self.held[self.maker.pop(found)] -= 1
        self.step, pick = self.steps[self.received], self.picks[self.received]
        self.getting = True
        self.crowd += 1.0
        self.computing = self.job.delivery + pick.cpu + pick.blocked

    def _woken(self) -> None:
        self.now, who = heapq.heappop(self.blocked)
        if who == TRAINING:
            self._stepped()
        elif who == MET:
            self.meeting = False
        elif who == PINNER:
            self._copy()
        else:
            self._wait_no_more(who, self.fetches[self.making[who]])

    def _wait_no_more(self, who: int, fetch: Work) -> None:
        if fetch.disk > 0:
            heapq.heappush(self.reading, (self.turned + fetch.disk, who))
        else:
            self._begin(who)

    def _read(self) -> None:
        self.turned, who = heapq.heappop(self.reading)
        self._begin(who)

    def _begin(self, who: int) -> None:
        self.crowd += 1.0
        self.computers.add(who)
        heapq.heappush(self.running, (self.virtual + self.fetches[self.making[who]].cpu, who))

    def _computed(self) -> None:
        self.virtual, who = heapq.heappop(self.running)
        self.crowd -= 1.0
        if who == PINNER:
            self.ready[self.pinning] = None
            self.pinning = -1
            return
        self.computers.discard(who)
        if self.pins:
            self.made.append(self.making[who])
        else:
            self.ready[self.making[who]] = None
        self.making[who] = -1
        if self.handing == who:
            self._handed()
        self._start(who)

    def _computed_step(self) -> None:
        step, self.computing = self.step, math.inf
        if step is None:
            return
        if self.getting:
            self._begin_step(step)
            return
        self.crowd -= step.width
        if step.blocked > 0:
            heapq.heappush(self.blocked, (self.now + step.blocked, TRAINING))
        else:
            self._stepped()

    def _begin_step(self, step: Work) -> None:
        self.getting = False
        self.received += 1
        self._hand_out()
        self.crowd += step.width - 1.0
        self.computing = step.cpu

    def _stepped(self) -> None:
        self.step = None
        self.ends.append(self.now)
