"""How batches that were made reach the training: each `next()` beside the making of the batch that it returned.

No record says which batch a worker made. torch hands batch k to worker k mod n and takes them back in that order, so
the calls of `next()` and the makings of each worker are two queues that are joined head to head. Records of different
processes come in any order; a making that does not fit its `next()` ends the joining until the next pass.

Whether a worker was at work on another batch while one of its batches was handed over shows in its following making,
whose record comes when that is over.
"""

from collections import deque
from typing import NamedTuple

from gputune.core.units import NS

APART = 512  # records of one kind that may wait for the other: a recorder that is behind reads ring after ring
LAIN = 500_000  # ns that a batch has been made for at the least to be called ready: it has passed its maker's queue


class Handed(NamedTuple):
    """What is kept of handovers, in s: all, those of batches made before, and those by what their makers did meanwhile.

    These were at work on another batch all the time (`hindered`), until that was made (`freed` up to there, `after`
    from there on), or not; `smooth` are those of batches made before whose makers were not.
    """

    all: deque[float]
    ready: deque[float]
    hindered: deque[float]
    freed: deque[float]
    after: deque[float]
    unhindered: deque[float]
    smooth: deque[float]


class Handovers:
    """Joins the batches of one iterator, pass by pass; `kept` gets the handovers."""

    def __init__(self, workers: int, kept: Handed) -> None:
        self._made: list[deque[tuple[int, int]]] = [deque(maxlen=APART) for _ in range(workers)]
        self._taken: list[deque[tuple[int, int, int]]] = [deque(maxlen=APART) for _ in range(workers)]
        self._asked: list[deque[tuple[int, int, bool]]] = [deque(maxlen=APART) for _ in range(workers)]
        self._kept = kept
        self._began = 0
        self._next = 0
        self._due: dict[int, int] = {}  # worker to the number of its batch that arrives next
        self._lost = not workers

    def begin(self, t0: int) -> None:
        """Begin a pass at `t0` (ns). What was made before it is nobody's any more."""
        self._began, self._next, self._due = t0, 0, {}
        self._lost = not self._made
        for taken, asked in zip(self._taken, self._asked, strict=True):
            taken.clear()
            asked.clear()

    def made(self, worker: int, t0: int, t1: int) -> None:
        """Take the making of one batch by a worker (its number)."""
        if 0 <= worker < len(self._made):
            self._made[worker].append((t0, t1))
            self._meanwhile(worker, t0, t1)
            self._join(worker)

    def taken(self, index: int, t0: int, t1: int, early: int = 0) -> None:
        """Take the `next()` that returned batch number `index` of the pass.

        `early` batches had come before it, while another was waited for: it may be one of them, and cost nothing now.
        """
        if index != self._next:
            self._lost = True
        self._next = index + 1
        if not self._lost:
            worker = index % len(self._taken)
            self._taken[worker].append((t0, t1, early))
            self._join(worker)

    def arrived(self, index: int, t0: int, t1: int) -> None:
        """Take that a thread which takes batches as they are made got number `index`, ready for one since `t0`."""
        worker = index % max(1, len(self._taken))
        if index != self._due.get(worker, worker):
            self._lost = True
        self._due[worker] = index + len(self._taken)
        if not self._lost:
            self._taken[worker].append((t0, t1, 0))
            self._join(worker)

    def _join(self, worker: int) -> None:
        made, taken = self._made[worker], self._taken[worker]
        while made and made[0][0] < self._began:
            made.popleft()
        while made and taken and not self._lost:
            _, done = made.popleft()
            asked, returned, early = taken.popleft()
            self._lost = done > returned or len(taken) + 1 >= APART
            if not self._lost:
                since = max(asked, done)
                lain = asked - done >= LAIN
                self._kept.all.append((returned - since) / NS)
                if early <= 0:
                    self._asked[worker].append((since, returned, lain))
                    for later in made:
                        if not self._asked[worker]:
                            break
                        self._meanwhile(worker, *later)
                if lain and early <= 0:
                    self._kept.ready.append((returned - asked) / NS)

    def _meanwhile(self, worker: int, t0: int, t1: int) -> None:
        """Take a making of `t0` to `t1` (ns): it may hinder handovers that no earlier one of the worker ended after.

        What is handed out at the end of a `next()` begins within it, and does not.
        """
        asked = self._asked[worker]
        while asked and asked[0][0] < t1:
            begun, over, lain = asked.popleft()
            if t0 >= (begun + over) / 2:
                self._kept.unhindered.append((over - begun) / NS)
                if lain:
                    self._kept.smooth.append((over - begun) / NS)
            elif t1 >= over:
                self._kept.hindered.append((over - begun) / NS)
            else:
                self._kept.freed.append((t1 - begun) / NS)
                self._kept.after.append((over - t1) / NS)
