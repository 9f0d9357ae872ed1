"""The part of the gatherer that listens to where one rank meets the others: rounds from one meeting to the next.

A round's own time is what this rank takes by itself; the rest it stands at the meeting, which is waiting for others and
communication. Both are durations on one clock, so ranks on other machines compare without theirs being equal.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from gputune.core.events import CALM_PARTS, QUEUED_BITS, Record, RendezvousCode
from gputune.core.units import NS
from gputune.features import SyncRound

ROUNDS_KEPT = 1024  # rounds kept, the latest
WARM_UP = 3  # rounds left out: buckets are rebuilt and caches settle in them
RANK_BITS = 16  # of field c of a RENDEZVOUS
RECENT = 1024  # calls kept until the step, or the reduction, that they belong to is told: one for each parameter


class _Call(NamedTuple):
    """One collective that the training thread called: ns."""

    t0: int
    t1: int
    number: int
    size: int
    ranks: int


class _Round(NamedTuple):
    """One that is over, and between which moments (ns of the host's clock) its own work was done."""

    began: int
    end: int
    over: int  # when the rank went on
    meeting: SyncRound


class Meetings:
    """The rounds of one process. Memory is bounded."""

    def __init__(self) -> None:
        self._calls: deque[_Call] = deque(maxlen=RECENT)  # since the last step
        self._latest: deque[_Call] = deque(maxlen=RECENT)  # for DDP's meetings, which are told a step later
        # those of DistributedDataParallel and of devices, the ends of steps, begins and ends of backward passes, and
        # waits for batches (ns: of the host, of the device), in whose order they are not told
        self._reduced: deque[_Round] = deque(maxlen=ROUNDS_KEPT)
        self._waits: deque[tuple[int, int]] = deque(maxlen=2 * ROUNDS_KEPT)
        self._idles: deque[tuple[int, int, int]] = deque(maxlen=2 * ROUNDS_KEPT)
        self._steps: deque[int] = deque(maxlen=ROUNDS_KEPT)
        self._passes: deque[tuple[int, int]] = deque(maxlen=ROUNDS_KEPT)
        self._called: deque[_Round] = deque(maxlen=ROUNDS_KEPT)  # those of calls, a round an optimizer step
        self._rounds = 0
        self._stepped = 0
        self._iterations = (0, 0)  # first and last of DDP's that was told
        self._counted = ((0, 0), (0, 0))  # batches, and steps of optimizers, by then
        self._batches = self._made = 0
        self._holds: deque[int] = deque(maxlen=ROUNDS_KEPT)  # ns of the host: when the device was held back on purpose
        self._inside = 0  # ns at DDP's meetings, of the sampled ones
        self._sampled = 0

    def backward(self, record: Record) -> None:
        """Take a backward pass: what follows up to the optimizer's step is done with its gradients."""
        self._passes.append((record.t0, record.t1))

    def waited(self, record: Record) -> None:
        """Take a next() that the training thread stood in."""
        self._waits.append((record.t0, record.t1))
        self._batches += 1

    def idled(self, record: Record) -> None:
        """Take a GAP record: how long the device had nothing to do around a next()."""
        self._idles.append((record.t0, record.t1, record.a))

    def held(self, t: int) -> None:
        """Learn that the device was held back on purpose at `t` (ns): all ranks stand for that in this round."""
        self._holds.append(t)

    @property
    def disturbed(self) -> frozenset[int]:
        """Return the numbers of the rounds in which it was."""
        return frozenset(r.meeting.number for r in self._reduced if any(r.began <= t <= r.over for t in self._holds))

    def called(self, record: Record) -> None:
        """Take a collective span of the training thread."""
        call = _Call(record.t0, record.t1, record.d, record.b, record.c)
        self._calls.append(call)
        self._latest.append(call)

    def reduced(self, record: Record) -> None:
        """Take a RENDEZVOUS record: DDP's reduction of the step before."""
        first = self._iterations[0] or record.a
        now = self._reached(record.t1)
        self._counted = (self._counted[0] if self._iterations[0] else now, now)
        self._iterations = (first, record.a)
        self._inside += 0 if record.code & RendezvousCode.ON_DEVICE else record.t1 - record.t0
        self._sampled += 1
        if self._sampled <= WARM_UP:
            return
        if record.code & RendezvousCode.STOOD and record.code & RendezvousCode.ON_DEVICE:
            self._stood(record)
            return
        began = record.t0 - record.d
        between = sum(max(0, min(c.t1, record.t0) - max(c.t0, began)) for c in self._latest)
        between = min(between, record.d)
        meeting = SyncRound(
            number=record.a,
            own=(record.d - between) / NS,
            apart=(record.t1 - record.t0 + between) / NS,
            hidden=record.e / NS,
            size=record.b,
            queued=_queued(record) / NS,
            calm_queued=_calm(record.code),
            calls=max(1, record.c >> RANK_BITS),
            ranks=record.c & ((1 << RANK_BITS) - 1),
            on_device=bool(record.code & RendezvousCode.ON_DEVICE),
        )
        self._reduced.append(_Round(began, record.t0, record.t1, meeting))

    def _reached(self, t: int) -> tuple[int, int]:
        """Return how many batches, and steps of optimizers, there were by `t` (ns): rounds of devices are told late."""
        batches = self._batches - len(self._waits) + bisect_right(self._waits, t, key=lambda wait: wait[1])
        return batches, self._made - len(self._steps) + bisect_right(self._steps, t)

    def _stood(self, record: Record) -> None:
        """Take a round of the device's clock, by what its stream stood for the other ranks."""
        meeting = SyncRound(
            number=record.a,
            own=record.d / NS,
            apart=record.e / NS,
            hidden=record.d * (record.code & ((1 << QUEUED_BITS) - 1)) / 1000 / NS,
            size=record.b,
            calls=max(1, record.c >> RANK_BITS),
            ranks=record.c & ((1 << RANK_BITS) - 1),
            on_device=True,
            gathered=bool(record.code & RendezvousCode.GATHERED),
        )
        self._reduced.append(_Round(record.t0, record.t1, record.t1, meeting))

    def step(self, record: Record) -> None:
        """Take the end of an optimizer step: the calls before it are one round."""
        self._steps.append(record.t1)
        self._made += 1
        if not self._calls:
            return
        before = [call for call in self._calls if call.t0 < record.t1]
        if not any(call.number for call in before):
            return
        began, self._stepped = self._stepped, record.t1
        for _ in before:
            self._calls.popleft()
        self._rounds += 1
        if not began or self._rounds <= WARM_UP:
            return
        apart = _inside(before, began)
        first, worked = self._passes[-1] if self._passes else (0, 0)
        told = began <= worked <= record.t1
        since = worked if told else max(call.t1 for call in before)
        meeting = SyncRound(
            number=max(call.number for call in before),
            own=max(0, record.t1 - began - apart) / NS,
            apart=apart / NS,
            size=sum(call.size for call in before if call.number),
            calls=sum(bool(call.number) for call in before),
            ranks=max(call.ranks for call in before),
            update=max(0, record.t1 - since - _inside(before, since)) / NS,
            backward=max(0, worked - max(first, began)) / NS if told else 0.0,
        )
        self._called.append(_Round(began, record.t1, record.t1, meeting))

    @property
    def told(self) -> tuple[SyncRound, ...]:
        """Return the rounds: those around DDP's reductions where there are any."""
        waits, idles = list(self._waits), list(self._idles)
        if not self._reduced:
            return tuple(replace(r.meeting, waited=_waited(waits, r)) for r in self._called)
        steps, passes = list(self._steps), list(self._passes)
        return tuple(
            replace(
                r.meeting,
                update=_until(steps, r.over, r.meeting.own),
                backward=_within(passes, r.end),
                waited=_idled(waits, idles, r) if r.meeting.on_device else _waited(waits, r),
            )
            for r in self._reduced
        )

    @property
    def rounds(self) -> int:
        """Return how many there were, not timed ones included: as many for each batch, or step, as between two."""
        if not self._reduced:
            return self._rounds
        (batches, steps), (later, more) = self._counted
        rounds = self._iterations[1] - self._iterations[0]
        total, between = (self._batches, later - batches) if self._batches else (self._made, more - steps)
        return round(total * rounds / between) if between else self._iterations[1]

    @property
    def out_of_sight(self) -> float:
        """Return the s that DDP's reductions held up the training thread in backward: sampled ones speak for all."""
        first, last = self._iterations
        return self._inside / self._sampled * (last - first + 1) / NS if self._sampled else 0.0


def _inside(calls: list[_Call], since: int) -> int:
    """Return the ns that these calls took from a moment on."""
    return sum(max(0, call.t1 - max(call.t0, since)) for call in calls)


def _waited(waits: list[tuple[int, int]], of: _Round) -> float:
    """Return the s of a round's own time in which it waited for batches."""
    place = max(0, bisect_right(waits, of.began, key=lambda one: one[0]) - 1)
    found = 0
    while place < len(waits) and waits[place][0] < of.end:
        t0, t1 = waits[place]
        found += max(0, min(t1, of.end) - max(t0, of.began))
        place += 1
    return min(of.meeting.own, found / NS)


def _idled(waits: list[tuple[int, int]], idles: list[tuple[int, int, int]], of: _Round) -> float:
    """Return the s of a round's own time in which its device idled for batches: as the host waited if it has not told.

    A host that is ahead of its device waits, and keeps nobody waiting.
    """
    place = bisect_right(idles, of.began, key=lambda one: one[0])
    mine = [idle for _, _, idle in takewhile(lambda one: one[1] <= of.end, idles[place:])]
    return min(of.meeting.own, sum(mine) / NS) if mine else _waited(waits, of)


def _until(steps: list[int], end: int, own: float) -> float:
    """Return the s from a meeting's end to that of the optimizer's step which follows; 0 where none is known."""
    place = bisect_left(steps, end)
    update = (steps[place] - end) / NS if place < len(steps) else 0.0
    return update if update < own else 0.0


def _within(passes: list[tuple[int, int]], moment: int) -> float:
    """Return the s from the begin of the backward pass around a moment to that moment; 0 where none is known."""
    place = bisect_right(passes, moment, key=lambda one: one[0]) - 1
    inside = place >= 0 and moment <= passes[place][1]
    return (moment - passes[place][0]) / NS if inside else 0.0


def _queued(record: Record) -> float:
    """Return the ns since the meeting before it that the thread was runnable without a CPU."""
    return 0.0 if record.code & RendezvousCode.ON_DEVICE else record.d * (record.code & ((1 << QUEUED_BITS) - 1)) / 1000


def _calm(code: int) -> float | None:
    """Return the share of the latest forward passes that the thread was so, None where that was not measured."""
    told = 0 if code & RendezvousCode.ON_DEVICE else code >> QUEUED_BITS
    return (told - 1) / CALM_PARTS if told else None
