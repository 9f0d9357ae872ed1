"""How a live run goes now: its pace, its waits and its count of batches, of the counters that come once a second.

A verdict is written every half a minute at the rarest, and is on the whole run: beside a clock that goes on, its
figures would be those of another moment.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from gputune.core.sample import Reading, Sample
from gputune.core.units import NS
from gputune.feeds.rows import Present, RunRow

WAIT, BATCHES, SAMPLES = "loader.wait", "loader.batches", "loader.samples"
COUNTED = frozenset({WAIT, BATCHES, SAMPLES})
SHORT, LONG = 10.0, 60.0  # s of a stretch that is called the present: longer where batches are few, and no longer
KEPT = 2 * LONG  # s: a verdict is half that old at the most


@dataclass(slots=True)
class _Row:
    """What the recorder had counted by `at`, s."""

    at: float
    wait: float = 0.0
    batches: float = 0.0
    samples: float = 0.0


@dataclass(slots=True)
class Recent:
    """The last counts of one run. Times are s on any one clock."""

    _rows: deque[_Row] = field(default_factory=deque)

    def take(self, readings: Iterable[Reading], offset: int = 0, began: float = 0.0) -> None:
        """Take the readings of a tick; `offset` ns are added to their times, and `began` s taken away."""
        for reading in readings:
            if isinstance(reading, Sample) and reading.metric.name in COUNTED:
                self._count(reading.metric.name, reading.value, (reading.t + offset) / NS - began)

    def _count(self, name: str, value: float, at: float) -> None:
        if not self._rows or at > self._rows[-1].at:
            last = self._rows[-1] if self._rows else _Row(at)
            self._rows.append(_Row(at, batches=last.batches, samples=last.samples))
        row = self._rows[-1]
        if name == WAIT:
            row.wait = value
            return
        if value < (row.batches if name == BATCHES else row.samples):  # counted anew: by another recorder
            self._rows.clear()
            self._rows.append(row)
        if name == BATCHES:
            row.batches = value
        else:
            row.samples = value
        while row.at - self._rows[0].at > KEPT:
            self._rows.popleft()

    def present(self, told: int = 0, told_at: float | None = None) -> Present | None:
        """Return how it goes; None where nothing was counted. `told` batches were known at `told_at`."""
        if len(self._rows) < 2:
            return None
        last, first = self._rows[-1], self._first()
        passed = last.at - first.at
        more = 0.0 if told_at is None else last.batches - self._by(told_at)
        return Present(
            at=last.at,
            rate=(last.samples - first.samples) / passed if last.samples else None,
            wait=fmean(row.wait for row in self._rows if row.at > first.at),
            batches=None if told_at is None else round(told + max(0.0, more)),
        )

    def _first(self) -> _Row:
        """Return where the present begins."""
        last = self._rows[-1]
        found = self._rows[-2]
        for row in reversed(self._rows):
            # 10 batches, of which one more or less is no news
            if last.at - row.at > LONG or (last.at - found.at >= SHORT and last.batches - found.batches >= 10):
                break
            found = row
        return found if found is not last else self._rows[-2]

    def _by(self, at: float) -> float:
        """Return how many batches were counted by then."""
        before = [row.batches for row in self._rows if row.at <= at]
        return before[-1] if before else self._rows[0].batches


def wait_and_rate(rows: Sequence[RunRow]) -> tuple[float | None, float | None]:
    """Return the share of the loop that live runs wait for batches, their mean, and their samples/s, added up."""
    waits, rates = [], []
    for row in rows:
        verdict = row.recent or row.verdict
        if row.present is not None:
            waits.append(row.present.wait)
            rates.append(row.present.rate)
        elif verdict is not None:
            waits.append(sum(r.share for r in verdict.ledger if r.span == WAIT) if verdict.ledger else None)
            rates.append(verdict.samples_per_s)
    known, paces = [w for w in waits if w is not None], [r for r in rates if r is not None]
    return (fmean(known) if known else None, sum(paces) if paces else None)
