"""What becomes of the values of a column in each point: a level, what a counter grew by, a sum a second."""

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from gputune.core.units import US
from gputune.recording.encoding import declared
from gputune.recording.overview import ColumnEnvelope
from gputune.recording.points import Grid, PointRows, PointStats, between

GROWS = {"us": ("ratio", 1 / US), "s": ("ratio", 1.0), "J": ("W", 1.0)}  # counters' units to what they are a second


class CurveBuilder(Protocol):
    """Takes a column segment by segment; then tells its line. `covered`: in which points anything was read at all."""

    unit: str

    def take(self, rows: PointRows, values: pa.Array) -> None:
        """Take the column's values in some rows."""

    def line(self, covered: Sequence[bool]) -> ColumnEnvelope | None:
        """Return the line, None where there was no value."""


class _Tallied:
    """Counts the values of a column in each point; what line they make is for those that are of this kind."""

    def __init__(self, unit: str, grid: Grid) -> None:
        self.unit = unit
        self.grid = grid
        self.tally = PointStats(grid.count)

    def take(self, rows: PointRows, values: pa.Array) -> None:
        """Take the column's values in some rows."""
        self.tally.take(rows, values)


class Level(_Tallied):
    """The values themselves: of a gauge, or of a column of records."""

    def line(self, covered: Sequence[bool]) -> ColumnEnvelope | None:  # noqa: ARG002 - of a Curve
        """Return least, mean and greatest; a point between two readings that were close tells the later one's."""
        tally, by = self.tally, self.tally.told_by(self.grid.step)
        if not any(tally.seen):
            return None
        both = zip(tally.sum, tally.seen, tally.low, tally.high, strict=True)
        means = [min(max(low, total / seen), high) if seen else math.nan for total, seen, low, high in both]
        return ColumnEnvelope(self.unit, _told(tally.low, by), _told(means, by), _told(tally.high, by))


class CounterRate(Level):
    """What a counter grew by a second between two readings."""

    def __init__(self, unit: str, grid: Grid) -> None:
        _, self._factor = GROWS.get(unit, ("", 1.0))
        super().__init__(growth_unit(unit), grid)
        self.ends: tuple[tuple[int, int], ...] = ()  # the first reading of all and the last one: µs, and what it was

    def take(self, rows: PointRows, values: pa.Array) -> None:
        """Take the counter's readings, which come after all that were taken before."""
        read = rows.read(values)
        if not len(read.us):
            return
        values = values.filter(values.is_valid()) if values.null_count else values
        self.reach((read.us[0].as_py(), values[0].as_py()), (read.us[-1].as_py(), values[-1].as_py()))
        grown = between(values)
        if (pc.min(grown).as_py() or 0) < 0:  # it began anew
            grown = pc.if_else(pc.less(grown, 0), None, grown)
        self.tally.take(read.later, pc.multiply(pc.divide(grown, read.apart), self._factor))

    def reach(self, first: tuple[int, int], last: tuple[int, int]) -> None:
        """Take the ends of what comes next: what it grew by from the last reading so far to that `first` one."""
        if self.ends:
            self._step(self.ends[1], first)
        self.ends = (self.ends[0] if self.ends else first, last)

    def _step(self, last: tuple[int, int], first: tuple[int, int]) -> None:
        us, grown = first[0] - last[0], first[1] - last[1]
        if us > 0 and grown >= 0:
            self.tally.add(first[0], self.grid, grown * self._factor * US / us)


class Sum(_Tallied):
    """The sum of a column a second; 0 where there was none although the recorder was there."""

    def totals(self) -> Sequence[float]:
        """Return the sum of each point."""
        return self.tally.sum

    def line(self, covered: Sequence[bool]) -> ColumnEnvelope | None:
        """Return the line: there is one number a point."""
        if not any(self.tally.seen):
            return None
        both = zip(self.totals(), covered, strict=True)
        found = [total * US / self.grid.step if there or total else math.nan for total, there in both]
        shown = _told(found, range(len(found)))
        return ColumnEnvelope(self.unit, shown, shown, shown)


class Count(Sum):
    """How many rows there are a second."""

    def take(self, rows: PointRows, values: pa.Array) -> None:  # noqa: ARG002 - of a Curve
        """Take that there are rows."""
        self.tally.count(rows)

    def totals(self) -> Sequence[float]:
        """Return the rows of each point."""
        return [float(many) for many in self.tally.seen]


class TimeShare(Sum):
    """The share of time that rows last (s), together: a long one lies in many points."""

    def __init__(self, unit: str, grid: Grid) -> None:
        super().__init__(unit, grid)
        self._tails = PointStats(grid.count)
        self._opened, self._closed = PointStats(grid.count), PointStats(grid.count)

    def take(self, rows: PointRows, values: pa.Array) -> None:
        """Take from when on rows lasted, and how long (s): in its first point, in its last one, whole ones between."""
        lasted = pc.round(pc.multiply(values.fill_null(0.0), US)).cast(pa.int64())
        began = pc.max_element_wise(rows.us, self.grid.start)
        ended = pc.min_element_wise(pc.add(rows.us, lasted), self.grid.end)
        some = pc.greater(ended, began)
        began, ended = began.filter(some), ended.filter(some)
        edge = self._edge_after(began)
        self.tally.take(PointRows(began, self.grid), _seconds(pc.subtract(pc.min_element_wise(edge, ended), began)))
        long = pc.greater(ended, edge)
        edge, ended = edge.filter(long), ended.filter(long)
        last = pc.subtract(ended, 1)
        tail = self._edge_before(last)
        self._tails.take(PointRows(last, self.grid), _seconds(pc.subtract(ended, tail)))
        self._opened.take(PointRows(edge, self.grid), edge)
        self._closed.take(PointRows(tail, self.grid), tail)

    def _edge_before(self, us: pa.Array) -> pa.Array:
        step, start = self.grid.step, self.grid.start
        return pc.add(pc.multiply(pc.divide(pc.subtract(us, start), step), step), start)

    def _edge_after(self, us: pa.Array) -> pa.Array:
        return pc.add(self._edge_before(us), self.grid.step)

    def totals(self) -> Sequence[float]:
        """Return the seconds of each point."""
        found = []
        through = 0
        whole = self.grid.step / US
        for head, tail, opened, closed in zip(
            self.tally.sum, self._tails.sum, self._opened.seen, self._closed.seen, strict=True
        ):
            through += opened - closed
            found.append(head + tail + through * whole)
        return found


def curve_of(about: str, grid: Grid) -> Level:
    """Return the curve of a column of `samples` that is declared so."""
    metric, _ = declared(about)
    return (CounterRate if metric.kind == "counter" else Level)(metric.unit, grid)


def growth_unit(unit: str) -> str:
    """Return the unit of what a counter of this unit grows by a second."""
    return GROWS.get(unit, (f"{unit}/s", 1.0))[0]


def _seconds(us: pa.Array) -> pa.Array:
    return pc.divide(us.cast(pa.float64()), US)


def _told(numbers: "Sequence[float] | array[float]", by: Iterable[int]) -> tuple[float | None, ...]:
    """Return for each point the number of the one that tells of it; what is no number is a gap."""
    found = (numbers[point] if point >= 0 else math.nan for point in by)
    return tuple(number if math.isfinite(number) else None for number in found)
