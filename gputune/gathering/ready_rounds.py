"""Rounds of a loop in which its batches lay ready: what the loop takes where it waits for none of them.

They come after whatever held the training up for long enough: the guest, on purpose (filling.py), or a pause of the
loop's own, an evaluation or a checkpoint, in which the workers filled their queue.
"""

from collections import deque

from gputune.core.events import Record
from gputune.core.figures import mean
from gputune.core.units import NS

ROUNDS_KEPT = 512  # rounds, the latest
RECENT = 16  # batches over which that is the average
LATEST = 64  # waits, and rounds as they usually are


class ReadyRounds:
    """The rounds of one loader in which a batch lay ready, and how often the training was held up for that."""

    def __init__(self, workers: int, prefetch: int) -> None:
        self._workers, self._prefetch = workers, prefetch
        self._ready = 0  # batches that the next rounds find
        self._cold = False  # the next round follows a pause
        self._making = 0.0  # ns that a batch takes to make
        self._waits: deque[int] = deque(maxlen=LATEST)  # ns
        self._usual: deque[float] = deque(maxlen=LATEST)  # s of rounds that found no such batch
        self.rounds: deque[float] = deque(maxlen=ROUNDS_KEPT)  # s
        self.beside: deque[float] = deque(
            maxlen=ROUNDS_KEPT
        )  # s of usual rounds right before each of these: paces drift
        self.count = 0  # times that the training was held up
        self.idle = 0.0  # s that the workers may have idled for it

    def begin(self) -> None:
        """Begin a pass: what lay ready was of another."""
        self._ready = 0

    def made(self, wall: int) -> None:
        """Take what a batch took to make (ns)."""
        self._making += (wall - self._making) / RECENT if self._making else wall

    def stood(self, record: Record) -> None:
        """Take that the training was held up until so many batches lay ready; not at all where they did."""
        self.count += record.t1 > record.t0
        self._ready, self._cold = record.d, True
        over = max(0, record.d - self._workers * (self._prefetch - 1)) / max(1, self._workers)
        self.idle += over * (self.rounds[-1] if self.rounds else 0.0)

    def round(self, gap: int, wait: int, paused: int) -> None:
        """Take a round: a step, `paused` ns of which were something else, and the next() after it (ns)."""
        self._waits.append(wait)
        # 1.5 times what it takes to fill the queue that a pause has to last: batches take unlike long to make
        if self._workers and paused > 1.5 * self._prefetch * self._making > 0:
            self._ready, self._cold = self._workers * self._prefetch, True  # of the next ones: this one is the pause's
        # 2.0 times the shortest of the latest waits, or
        # 0.1 of the mean wait, whichever is more: a batch that is waited for longer did not lie ready
        elif self._ready > 0 and wait > max(2.0 * min(self._waits), 0.1 * mean(self._waits)):
            self._ready = 0  # batches lie there, and not the one whose turn it is
        elif self._ready > 0:
            self._ready -= 1
            if not self._cold and not paused and self._usual:
                self.rounds.append((gap + wait) / NS)
                self.beside.append(mean(self._usual))
            self._cold = False
        else:
            self._usual.append((gap + wait - paused) / NS)
