"""Rounds of a loop in which its batches lay ready: what the loop takes where it waits for none of them.

They come after whatever held the training up for long enough: the guest, on purpose (filling.py), or a pause of the
loop's own, an evaluation or a checkpoint, in which the workers filled their queue.
"""

from collections import deque

from gputune.events import Record

KEPT = 512  # rounds, the latest
LONGER = 1.5  # times what it takes to fill the queue that a pause has to last: batches take unlike long to make
RECENT = 16  # batches over which that is the average


class Filled:
    """The rounds of one loader in which a batch lay ready, and how often the training was held up for that."""

    def __init__(self, workers: int, prefetch: int) -> None:
        self._workers, self._prefetch = workers, prefetch
        self._ready = 0  # batches that the next rounds find
        self._cold = False  # the next round follows a pause
        self._making = 0.0  # ns that a batch takes to make
        self.rounds: deque[float] = deque(maxlen=KEPT)  # s
        self.count = 0  # times that the training was held up
        self.idle = 0.0  # s that the workers may have idled for it

    def made(self, wall: int) -> None:
        """Take what a batch took to make (ns)."""
        self._making += (wall - self._making) / RECENT if self._making else wall

    def stood(self, record: Record) -> None:
        """Take that the training was held up until so many batches lay ready; not at all where they did."""
        self.count += record.t1 > record.t0
        self._ready, self._cold = record.d, True
        over = max(0, record.d - self._workers * (self._prefetch - 1)) / max(1, self._workers)
        self.idle += over * (self.rounds[-1] if self.rounds else 0.0)

    def round(self, seconds: float, paused: int) -> None:
        """Take a round up to a next(), both together, `paused` ns of whose step were something else."""
        if self._workers and paused > LONGER * self._prefetch * self._making > 0:
            self._ready, self._cold = self._workers * self._prefetch, True  # of the next ones: this one is the pause's
        elif self._ready > 0:
            self._ready -= 1
            if not self._cold and not paused:
                self.rounds.append(seconds)
            self._cold = False
