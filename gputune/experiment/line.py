"""Batches of one loader in one process, and how fast they came: without pauses, and what workers make ready in them."""

import statistics
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gputune.core.units import NS
from gputune.gathering.device_time import Moments, drained

BLOCKS = 10  # parts of a stretch whose rates are compared with each other
MIN_BATCHES = 8  # batches beyond the warm-up: fewer give no rate
BATCHES_KEPT = 1 << 16  # batches of a loader in a process whose times are kept; the older half of more goes


@dataclass(slots=True)
class BatchTimes(Moments):
    """Batches of one loader in one process: when each was there (ns), and how many samples it held.

    `clock` is the host's time without the pauses before it, `waits` (ns) what the loop waited for it. `resumed` is 1 of
    the first batch after a pause through which its iterator went on: workers have filled their queues meanwhile.
    `ahead`: so they had before the first of these batches, and were not seen empty since.
    """

    clock: "array[int]" = field(default_factory=lambda: array("q"))
    samples: "array[int]" = field(default_factory=lambda: array("q"))
    waits: "array[int]" = field(default_factory=lambda: array("q"))
    resumed: "array[int]" = field(default_factory=lambda: array("b"))
    gone: int = 0  # batches that are not kept any more
    ahead: bool = False

    def __len__(self) -> int:
        """Return how many batches came."""
        return self.gone + len(self.ends)

    def add(self, t: int, paused: int, samples: int, wait: int = 0, *, first: bool = False) -> None:
        """Take one batch that was there at `t` (ns), `paused` ns of pauses behind it; the `first` of its iterator."""
        if len(self.ends) >= BATCHES_KEPT:
            self.gone += BATCHES_KEPT // 2
            for series in (self.ends, self.clock, self.caught, self.samples, self.waits, self.resumed):
                del series[: BATCHES_KEPT // 2]
        before = self.ends[-1] - self.clock[-1] if self.ends else paused
        self.clock.append(t - paused)
        self.samples.append(samples)
        self.waits.append(wait)
        self.resumed.append(int(paused != before and not first))
        self.came(t)

    def since(self, begin: int) -> int:
        """Return how many batches with a time came after `begin` (ns)."""
        return max(0, self.known - bisect_right(self.ends, begin))

    def after(self, begin: int, most: int) -> "BatchTimes":
        """Return the first `most` batches with a time that came after `begin` (ns)."""
        first = bisect_right(self.ends, begin)
        kept = slice(first, first + min(most, self.since(begin)))
        found = BatchTimes(
            ends=self.ends[kept],
            clock=self._clock(kept)[kept],
            samples=self.samples[kept],
            waits=self.waits[kept],
            resumed=self.resumed[kept],
        )
        found.ahead = len(found) > 0 and self._is_ahead(first)
        if found.ahead:
            found.resumed[0] = 1
        return found

    def _clock(self, kept: slice) -> "array[int]":
        """Return the times by which these batches are measured."""
        host, device = self.clock[kept], self.caught[kept]
        if len(device) < 2 or drained(host[-1] - host[0], device[-1] - device[0], len(device) - 1):
            return self.clock
        return self.caught

    def _is_ahead(self, first: int) -> bool:
        """Return whether a pause lies before a batch, and since it none was waited for."""
        paused = self.resumed[:first].tobytes().rfind(b"\x01")
        return paused >= 0 and max(self.waits[paused:first]) <= self._long

    @property
    def _long(self) -> float:
        """Return the ns from which on a wait is one for a batch that does not lie ready."""
        # 0.1 of the time that a batch takes on average: one that lies ready is there sooner
        return 0.1 * (self.clock[-1] - self.clock[0]) / len(self.clock)

    def rate(self, among: Sequence[int], size: int) -> float:
        """Return samples/s of these batches, each timed from the one before it; `size` is that of one not counted."""
        done = sum(self.samples[n] or size for n in among)
        return done / max(1, self._took(among)) * NS

    def parts(self, skip: int, size: int, blocks: int = BLOCKS) -> list[float]:
        """Return the rates of up to so many parts of equally many batches, the first `skip` left out.

        Their harmonic mean is the rate of them all: samples over seconds.
        """
        timed = self._timed(skip)
        number = min(blocks, len(timed) // 2)
        if len(timed) < MIN_BATCHES:
            return []
        edges = [len(timed) * n // number for n in range(number + 1)]
        rates = [self.rate(timed[begin:end], size) for begin, end in pairwise(edges)]
        scale = self.rate(timed, size) / statistics.harmonic_mean(rates)
        return [rate * scale for rate in rates]

    def extent(self, skip: int) -> tuple[int, float]:
        """Return how many batches these parts are of, and how many s they took."""
        timed = self._timed(skip)
        return len(timed), self._took(timed) / NS

    def settled(self, skip: int) -> bool:
        """Return whether enough batches are there beside those that were made in pauses."""
        # 20 times a queue: of so many batches without a wait those made in a pause before are a twentieth at most
        if self.ahead and max(self.waits) <= self._long and len(self.ends) < 20 * skip:
            return False
        return 1 not in self.resumed or len(self._fresh(skip)) >= MIN_BATCHES

    def _timed(self, skip: int) -> Sequence[int]:
        """Return which batches are timed: without those made in pauses, as far as there are enough others.

        Where there are not, pauses come so often that no queue runs dry between them: that is how the training goes on.
        """
        fresh = self._fresh(skip) if 1 in self.resumed else ()
        return fresh if len(fresh) >= MIN_BATCHES else range(max(1, skip), len(self.ends))

    def _fresh(self, skip: int) -> list[int]:
        """Return which batches are timed between pauses, so that as many were made in that time as came."""
        long = self._long
        begins = [n for n, resumed in enumerate(self.resumed) if resumed]
        found = list(range(max(1, skip), begins[0])) if begins else []
        for begin, end in pairwise([*begins, len(self.ends)]):
            found += self._between(range(max(1, skip, begin + skip), end), long)
        return found

    def _between(self, rest: Sequence[int], long: float) -> Sequence[int]:
        """Return which batches of the `rest` after a pause are timed: from one moment of empty queues to another.

        Queues are empty where the loop had to wait (`long` ns). Where it hardly waits, its loader keeps up: all are.
        """
        waited = [n for n in rest if self.waits[n] > long]
        # 0.01 of the time: a loop that waits for less is not held up by its loader
        if not waited or sum(self.waits[n] for n in waited) < 0.01 * self._took(rest):
            return rest
        return range(waited[0] + 1, waited[-1] + 1)

    def _took(self, among: Sequence[int]) -> int:
        """Return how many ns these batches took, each from the one before it; without pauses."""
        return sum(self.clock[n] - self.clock[n - 1] for n in among)
