"""For how long the training thread stands in launches: the device is behind, and its queue holds no more.

Nobody sees that wait by itself: a launch that has to wait burns the CPU as one that does not, and most are made in C.
But by the device's clock it is known how far it is behind the host where a step begins and where it ends. Behind a
full queue that does not grow any more, however quick the host is: so steps that begin and end there take as long as the
device, and what the host needs for itself shows in those that had room, from an empty queue to a full one.

A queue of a thousand launches that is full keeps the device busy for longer than the host took to queue them. A device
that is behind by less than that has but come to the last ones a moment later, as one does that waits for its host.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from gputune.core.events import Kind, Record
from gputune.core.figures import mean

ODD = 3.0  # times the median: a step with room that took longer did something else, as to save a model
FIRST, LATEST = 64, 1024  # steps kept: the queue fills for the first time in the former
USUAL = 0.9  # quantile of how far the device is behind that a queue may hold at the most: a few steps are odd
FULL = 0.8  # of that: from here on it is full at a step's begin and at its end, below it there is room at both
LEAST_FULL, LEAST_ROOM = 8, 2  # steps of each kind: of fewer nothing is said
HOLDS = 0.5  # of the host's own time for a step, at the least: of a step of more than two full queues nothing is said


class _Step(NamedTuple):
    """What the host took for a step, waits that are told by themselves left out, and the device's lag around it, ns."""

    own: int
    before: int
    after: int


@dataclass(slots=True)
class Queue:
    """The launch queue of one process, by the steps that were timed. Memory is bounded."""

    _gap: Record | None = None
    _step: Record | None = None  # each waits for the other one of the same step
    _first: list[_Step] = field(default_factory=list)
    _latest: "deque[_Step]" = field(default_factory=lambda: deque(maxlen=LATEST))

    def take(self, record: Record) -> None:
        """Take a GAP or DEVICE record: of a step either may come first, a recording has them in another order."""
        if record.kind == Kind.GAP:
            self._gap = record
        elif record.kind == Kind.DEVICE:
            self._step = record
        gap, step = self._gap, self._step
        # 1_000_000 ns by which a recording may move what was at one moment
        if gap is not None and step is not None and abs(gap.t0 - step.t1) <= 1_000_000:
            self._gap = self._step = None
            self._keep(gap, step)

    def _keep(self, gap: Record, step: Record) -> None:
        if not gap.c:
            return
        own = max(0, step.t1 - step.t0 - step.b - step.d)
        kept = self._first if len(self._first) < FIRST else self._latest
        kept.append(_Step(own, step.e, (gap.c - 1) * 1000))

    @property
    def stood(self) -> float | None:
        """Return the ns that the thread stands so in a mean step of those kept last; None where it cannot be told."""
        steps = [*self._first, *self._latest]
        lags = sorted(step.after for step in steps)
        limit = FULL * lags[int(USUAL * (len(lags) - 1))] if lags else 0.0
        full = [step.own for step in steps if min(step.before, step.after) >= limit > 0]
        room = sorted(step.own for step in steps if max(step.before, step.after) < limit)
        if len(full) < LEAST_FULL or len(room) < LEAST_ROOM:
            return None
        own = mean([each for each in room if each <= ODD * room[(len(room) - 1) // 2]])
        if limit < HOLDS * own:
            return None
        # 1.2 times what steps with room take: steps at a full queue that take less may differ by chance
        return (mean(full) - own) * len(full) / len(steps) if mean(full) > 1.2 * own else 0.0
