"""The part of the gatherer that listens to where one rank meets the others: rounds from one meeting to the next.

A round's own time is what this rank takes by itself; the rest it stands at the meeting, which is waiting for others and
communication. Both are durations on one clock, so ranks on other machines compare without theirs being equal.
"""

from collections import deque
from typing import NamedTuple

from gputune.events import ON_DEVICE, Record
from gputune.features import Meeting
from gputune.units import NS

KEPT = 1024  # rounds kept, the latest
WARM_UP = 3  # rounds left out: buckets are rebuilt and caches settle in them
RECENT = 256  # calls kept until the step, or the reduction, that they belong to is told


class _Call(NamedTuple):
    """One collective that the training thread called: ns."""

    t0: int
    t1: int
    number: int
    size: int
    ranks: int


class Meetings:
    """The rounds of one process. Memory is bounded."""

    def __init__(self) -> None:
        self._calls: deque[_Call] = deque(maxlen=RECENT)  # since the last step
        self._latest: deque[_Call] = deque(maxlen=RECENT)  # for DDP's meetings, which are told a step later
        self._reduced: deque[Meeting] = deque(maxlen=KEPT)  # those of DistributedDataParallel
        self._called: deque[Meeting] = deque(maxlen=KEPT)  # those of calls, a round an optimizer step
        self._rounds = 0
        self._stepped = 0
        self._iterations = (0, 0)  # first and last of DDP's that was told
        self._inside = 0  # ns at DDP's meetings, of the sampled ones
        self._sampled = 0

    def called(self, record: Record) -> None:
        """Take a collective span of the training thread."""
        call = _Call(record.t0, record.t1, record.d, record.b, record.c)
        self._calls.append(call)
        self._latest.append(call)

    def reduced(self, record: Record) -> None:
        """Take a RENDEZVOUS record: DDP's reduction of the step before."""
        first = self._iterations[0] or record.a
        self._iterations = (first, record.a)
        self._inside += 0 if record.code & ON_DEVICE else record.t1 - record.t0
        self._sampled += 1
        if self._sampled <= WARM_UP:
            return
        began = record.t0 - record.d
        between = sum(max(0, min(c.t1, record.t0) - max(c.t0, began)) for c in self._latest)
        between = min(between, record.d)
        self._reduced.append(
            Meeting(
                number=record.a,
                own=(record.d - between) / NS,
                apart=(record.t1 - record.t0 + between) / NS,
                hidden=record.e / NS,
                size=record.b,
                calls=max(1, record.code & ~ON_DEVICE),
                ranks=record.c,
            )
        )

    def step(self, record: Record) -> None:
        """Take the end of an optimizer step: the calls before it are one round."""
        before = [call for call in self._calls if call.t0 < record.t1]
        if not any(call.number for call in before):
            return
        began, self._stepped = self._stepped, record.t1
        for _ in before:
            self._calls.popleft()
        self._rounds += 1
        if not began or self._rounds <= WARM_UP:
            return
        apart = sum(max(0, call.t1 - max(call.t0, began)) for call in before)
        self._called.append(
            Meeting(
                number=max(call.number for call in before),
                own=max(0, record.t1 - began - apart) / NS,
                apart=apart / NS,
                size=sum(call.size for call in before if call.number),
                calls=sum(bool(call.number) for call in before),
                ranks=max(call.ranks for call in before),
            )
        )

    @property
    def told(self) -> tuple[Meeting, ...]:
        """Return the rounds: those around DDP's reductions where there are any."""
        return tuple(self._reduced or self._called)

    @property
    def out_of_sight(self) -> float:
        """Return the s that DDP's reductions held up the training thread in backward: sampled ones speak for all."""
        first, last = self._iterations
        return self._inside / self._sampled * (last - first + 1) / NS if self._sampled else 0.0
