"""By how much the rounds of a loop got longer for what its training thread was held up, a few rounds in a row.

What a block of such rounds, and those in which its delay may still be made up for, took longer than the rounds around
it, against the delay. The same figure of stretches in which nobody was held up, drawn from the same run, says how far
off it may be: rounds that hang together count as such. It never says less than the blocks differ among themselves.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import islice, pairwise
from math import sqrt

from gputune.core.events import Record
from gputune.core.figures import mean
from gputune.core.units import NS
from gputune.features import Slope

ROUNDS_KEPT = 16384  # rounds, the latest
BLOCKS = 256  # blocks of them that may wait to be judged, and differences kept: the latest
APART = 1024  # rounds between two looks at what can be judged
SETTLES = 2  # rounds into which what happened in one may reach, beside those for which batches lie ready
ODD = 4.0  # times as long as those around: such a round is a pause of the loop's own
MIN_BLOCKS = 3  # blocks, and calm stretches: with fewer nobody knows anything
NEAR = 12  # calm stretches before a block, at the most, that it is held against
SIDES = 2  # stretches of rounds on each side that say what they take otherwise: half a one at the least


class _Block:
    """Rounds that were slowed down: when, for how long in all (ns), and how many."""

    __slots__ = ("began", "count", "length")

    def __init__(self, began: int) -> None:
        self.began, self.count, self.length = began, 0, 0

    def add(self, record: Record) -> None:
        self.began = min(self.began, record.t0)
        self.length += record.t1 - record.t0
        self.count += 1


class Slowing:
    """Takes when rounds of one loop are over, and which were slowed down; `ahead` batches may lie ready."""

    def __init__(self, ahead: int = 0) -> None:
        self._reach = ahead + SETTLES
        self._ends: deque[int] = deque(maxlen=ROUNDS_KEPT)  # ns
        self._disturbed: deque[int] = deque(maxlen=ROUNDS_KEPT)  # ns
        self._waiting: dict[int, _Block] = {}
        self._judged: deque[_Block] = deque(maxlen=BLOCKS)
        self._found: deque[tuple[float, float]] = deque(maxlen=BLOCKS)  # s that a block was held up, and was longer
        self._calm: deque[float] = deque(maxlen=BLOCKS * NEAR)  # s that calm stretches were longer
        # 4 delays: what is between a step and a next() is asked for a round later
        self._latest: deque[Record] = deque(maxlen=4)
        self._since = 0
        self.count, self.seconds = 0, 0.0  # of blocks, and of delays in all

    def came(self, t: int) -> None:
        """Take when a round was over (ns)."""
        self._ends.append(t)
        self._since += 1
        if self._since >= APART:
            self._since = 0
            self._judge()

    def disturbed(self, t: int) -> None:
        """Take that at `t` (ns) a pass began, another rank was slowed down, or something else was tried."""
        self._disturbed.append(t)

    def slowed(self, record: Record) -> None:
        """Take that a round was slowed down."""
        if record.b not in self._waiting:
            self.count += 1
            if len(self._waiting) >= BLOCKS:
                self._waiting.pop(next(iter(self._waiting)))
        self._waiting.setdefault(record.b, _Block(record.t0)).add(record)
        self.seconds += (record.t1 - record.t0) / NS
        self._latest.append(record)

    def within(self, t0: int, t1: int) -> int:
        """Return for how many ns it was held up between two moments that are not long ago (ns)."""
        if not self._latest or self._latest[-1].t0 < t0:  # asked of every round, and next to none was held up
            return 0
        return sum(record.t1 - record.t0 for record in self._latest if t0 <= record.t0 and record.t1 <= t1)

    @property
    def told(self) -> Slope | None:
        """Return what was found so far, None while that is too little to say anything."""
        self._judge()
        if min(len(self._found), len(self._calm)) < MIN_BLOCKS:
            return None
        delay = mean(held for held, _ in self._found)
        value = sum(held * longer for held, longer in self._found) / sum(held * held for held, _ in self._found)
        apart = sum((longer - value * held) ** 2 for held, longer in self._found) / (len(self._found) - 1)
        calm = mean(longer * longer for longer in self._calm)
        error = sqrt(max(apart, calm) / len(self._found)) / delay
        each = sum(block.length for block in self._judged) / sum(block.count for block in self._judged) / NS
        return Slope(value=value, error=error, count=len(self._found), delay=each)

    def _judge(self) -> None:
        """Judge the blocks behind which enough rounds have come."""
        if not self._waiting:
            return
        ends = list(self._ends)
        rest = [bisect_left(ends, t) for t in self._disturbed]
        blocks = {block: bisect_left(ends, block.began) for block in (*self._judged, *self._waiting.values())}
        spans = [(at, at + self._reach) for at in rest] + [
            (at, at + block.count + self._reach) for block, at in blocks.items()
        ]
        for number, block in list(self._waiting.items()):
            at, size = blocks[block], block.count + self._reach
            if at + (1 + SIDES) * size <= len(ends):  # at the end of a run few are left out
                self._judged.append(self._waiting.pop(number))
                self._compare(_Rounds(ends, spans, size), at)

    def _compare(self, rounds: "_Rounds", at: int) -> None:
        """Hold a block that begins with the round `at` against those around it, and calm stretches before likewise."""
        longer = rounds.longer(at, own=True)
        if longer is None:
            return
        self._found.append((self._judged[-1].length / NS, longer / NS))
        size = rounds.size
        before = map(rounds.longer, range(at - (1 + SIDES) * size, 0, -max(1, size // 2)))
        self._calm += [each / NS for each in islice((x for x in before if x is not None), NEAR)]


class _Rounds:
    """Rounds by their ends (ns), and `spans` of them in which they are not as they are otherwise, by first and end."""

    def __init__(self, ends: Sequence[int], spans: Sequence[tuple[int, int]], size: int) -> None:
        self.size = size
        self._ends, self._spans = ends, spans

    def longer(self, at: int, *, own: bool = False) -> float | None:
        """Return by how many ns `size` rounds from `at` on are longer than as many of those around; None: not known.

        `own`: what begins there is what is asked about.
        """
        end, far = at + self.size, SIDES * self.size
        others = [(a, b) for a, b in self._spans if not (own and a == at)]
        first = max([at - far, 1, *(b for a, b in others if a < at)])
        last = min([end + far, len(self._ends), *(a for a, b in others if a >= at)])
        if min(at - first, last - end) < self.size // SIDES:
            return None
        around = (at - first) + (last - end)
        usual = (self._took(first, at) + self._took(end, last)) / around
        if max(b - a for a, b in pairwise(islice(self._ends, first - 1, last))) > ODD * usual:
            return None
        return self._took(at, end) - self.size * usual

    def _took(self, first: int, end: int) -> int:
        return self._ends[end - 1] - self._ends[first - 1]
