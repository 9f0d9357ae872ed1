"""Rows in the order of time to points of one length each: the least, the sum, the greatest and the number of values.

Arrow finds where points begin and looks at each of them whole; Python sees a number a point, not one a reading.
"""

from array import array
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from gputune.core.units import US

HELD = 15_000_000  # µs between two readings that is no gap: the slowest beat of a probe is 10 s
MISSED = 3  # beats of a column between two readings: more of them are a gap
INFINITE = float("inf")


@dataclass(frozen=True, slots=True)
class Grid:
    """`count` points of `step` µs each, from `start` on (µs, Unix time)."""

    start: int
    step: int
    count: int

    @property
    def end(self) -> int:
        """Return where the last point ends (µs, Unix time)."""
        return self.start + self.step * self.count


class PointRows:
    """When the rows of one table were (µs, Unix time), and in which points of a grid they lie."""

    def __init__(self, us: pa.Array, grid: Grid) -> None:
        self.us = us
        self._grid = grid
        self._read: dict[tuple[int, bytes], Read] = {}

    def read(self, values: pa.Array) -> "Read":
        """Return the rows in which a column has a value; columns that are read together have the same ones."""
        bits = values.buffers()[0] if values.null_count else None
        key = (values.offset, b"" if bits is None else bits.to_pybytes())
        if key not in self._read:
            self._read[key] = Read(self.us if bits is None else self.us.filter(values.is_valid()), self._grid)
        return self._read[key]

    @cached_property
    def _within(self) -> pa.Array | None:
        """Return which rows lie in the grid; None for all."""
        both = pc.min_max(self.us)
        if not len(self.us) or (both["min"].as_py() >= self._grid.start and both["max"].as_py() < self._grid.end):
            return None
        return pc.and_(pc.greater_equal(self.us, self._grid.start), pc.less(self.us, self._grid.end))

    @cached_property
    def _points(self) -> pa.Array:
        us = self.us if self._within is None else self.us.filter(self._within)
        return pc.divide(pc.subtract(us, self._grid.start), self._grid.step)

    @cached_property
    def _order(self) -> pa.Array | None:
        """Return the order in which points follow each other; None where they do."""
        at = self._points
        if len(at) < 2 or pc.all(pc.greater_equal(at.slice(1), at.slice(0, len(at) - 1))).as_py():
            return None
        return pc.sort_indices(at)

    @cached_property
    def points(self) -> pa.Array:
        """Return in which point each row of `laid` lies."""
        return self._points if self._order is None else self._points.take(self._order)

    @cached_property
    def runs(self) -> list[tuple[int, int, int]]:
        """Return for each point with rows: which it is, its first row in `laid`, and how many it has."""
        found = pc.run_end_encode(self.points, run_end_type=pa.int32())
        ends = found.run_ends.to_pylist()
        return [(p, a, b - a) for p, a, b in zip(found.values.to_pylist(), [0, *ends], ends, strict=False)]

    def laid(self, values: pa.Array) -> pa.Array:
        """Return a column of the rows: without those outside of the grid, and point after point."""
        if self._within is not None:
            values = values.filter(self._within)
        return values if self._order is None else values.take(self._order)


class Read:
    """The rows in which some columns have a value."""

    def __init__(self, us: pa.Array, grid: Grid) -> None:
        self.us = us
        self.later = PointRows(us.slice(1), grid)

    @cached_property
    def apart(self) -> pa.Array:
        """Return the s from each row to the next; null where the clock stands still."""
        us = between(self.us)
        return pc.divide(pc.if_else(pc.greater(us, 0), us, None).cast(pa.float64()), US)


def times(table: pa.Table) -> pa.Array:
    """Return when the rows of a table were (µs, Unix time)."""
    column = table["time"].combine_chunks()
    us = column.cast(pa.int64())
    return pc.multiply(us, 1000) if column.type.unit == "ms" else us


def between(column: pa.Array) -> pa.Array:
    """Return how much further each value is than the one before it."""
    return pc.subtract(column.slice(1), column.slice(0, len(column) - 1))


class PointStats:
    """What was seen of one column in each point of a grid."""

    def __init__(self, count: int) -> None:
        self.low = array("d", [INFINITE]) * count
        self.high = array("d", [-INFINITE]) * count
        self.sum = array("d", bytes(8 * count))
        self.seen = array("q", bytes(8 * count))

    def take(self, rows: PointRows, values: pa.Array) -> None:
        """Take a column of some rows."""
        laid = rows.laid(values)
        # 100 rows a point: with fewer of them it is faster to have Arrow sort them into points
        if len(laid) < 100 * len(rows.runs):
            self._take_short(rows.points, laid)
            return
        for point, first, many in rows.runs:
            part = laid.slice(first, many)
            both = pc.min_max(part)
            self.put(point, both["min"].as_py(), both["max"].as_py(), pc.sum(part).as_py(), many - part.null_count)

    def _take_short(self, points: pa.Array, laid: pa.Array) -> None:
        """Take many points of few rows each: Arrow sorts them in one go."""
        table = pa.table({"point": points, "value": laid}).group_by("point", use_threads=False)
        found = table.aggregate([("value", how) for how in ("min", "max", "sum", "count")])
        for point in zip(*(column.to_pylist() for column in found.columns), strict=True):
            self.put(*point)

    def put(self, point: int, low: float, high: float, total: float, seen: int) -> None:
        """Take so many values of a point: the least, the greatest and the sum of them."""
        if seen:
            self.low[point] = min(self.low[point], low)
            self.high[point] = max(self.high[point], high)
            self.sum[point] += total
            self.seen[point] += seen

    def add(self, us: int, grid: Grid, value: float) -> None:
        """Take one value more, of that moment."""
        if grid.start <= us < grid.end:
            self.put((us - grid.start) // grid.step, value, value, value, 1)

    def count(self, rows: PointRows) -> None:
        """Take that there are rows, whatever they hold."""
        for point, _, many in rows.runs:
            self.seen[point] += many

    def told_by(self, step: int) -> list[int]:
        """Return which point (of `step` µs) tells of each point: itself, or the next with a reading; -1 in a gap.

        A reading tells of the time since the one before it, unless that is long, also for how often this column is
        read: the memory of large processes is added up every few minutes only.
        """
        found = [-1] * len(self.seen)
        points = [point for point, many in enumerate(self.seen) if many]
        apart = sorted(later - point for point, later in pairwise(points))
        most = max(HELD, MISSED * apart[len(apart) // 2] * step) if len(apart) >= MISSED else HELD
        for point, later in pairwise([*points[:1], *points]):
            if (later - point) * step <= most:
                found[point + 1 : later] = [later] * (later - point - 1)
            found[later] = later
        return found
