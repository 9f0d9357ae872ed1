"""What the samples of a segment come to in cells of a minute, kept beside them and read in their place from afar.

Of a week, a plot wants a few columns of a thousand segments, each with hundreds: opened, decoded and counted for two
points. `cells/00002.parquet` has a row for each column and cell, with what a point needs, as `PointStats` counts it.
Points are then whole cells, so that they say the same either way. Rows of which nothing was `seen` hold the first and
the last reading of a counter: what it grew by from one segment to the next is told by both.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from gputune.recording.curves import CounterRate, curve_of
from gputune.recording.points import Grid, PointRows, PointStats, times

CELL = 60_000_000  # µs
FEWEST = 4  # cells of a point: as points are whole ones, there are fewer of them than asked for by a fifth at the most
SHAPE = pa.schema(
    [
        ("time", pa.timestamp("us", "UTC")),
        ("column", pa.string()),
        ("least", pa.float64()),
        ("greatest", pa.float64()),
        ("sum", pa.float64()),
        ("seen", pa.int32()),
    ]
)
TICKS = ""  # in place of a column: how many rows there are, whatever they hold
Row = tuple[int, str, float | None, float | None, float, int]


def made(samples: pa.Table, declared: Mapping[str, str], start: int) -> pa.Table:
    """Return the cells of samples whose columns are `declared`, from the run's `start` on (µs, Unix time)."""
    at = times(samples)
    if not len(at):
        return SHAPE.empty_table()
    both = pc.min_max(at)
    first, last = ((both[end].as_py() - start) // CELL for end in ("min", "max"))
    grid = Grid(start + first * CELL, CELL, last - first + 1)
    rows = PointRows(at, grid)
    found = list(_ticks(rows, grid))
    for name, about in declared.items():
        found += _column(about, rows, samples[name].combine_chunks(), grid)
    columns = [pa.array(column, kind) for column, kind in zip(zip(*found, strict=True), _kinds(), strict=True)]
    return pa.Table.from_arrays(columns, names=SHAPE.names).cast(SHAPE)


def _kinds() -> list[pa.DataType]:
    return [pa.int64(), *SHAPE.types[1:]]


def _ticks(rows: PointRows, grid: Grid) -> Iterator[Row]:
    tally = PointStats(grid.count)
    tally.count(rows)
    for cell, seen in enumerate(tally.seen):
        if seen:
            yield grid.start + cell * CELL, TICKS, None, None, 0.0, seen


def _column(about: str, rows: PointRows, values: pa.Array, grid: Grid) -> Iterator[Row]:
    curve = curve_of(about, grid)
    curve.take(rows, values)
    tally = curve.tally
    for cell, seen in enumerate(tally.seen):
        if seen:
            yield grid.start + cell * CELL, about, tally.low[cell], tally.high[cell], tally.sum[cell], seen
    if isinstance(curve, CounterRate):
        for us, value in curve.ends:
            yield us, about, None, None, float(value), 0


def fit(table: pa.Table, grid: Grid) -> bool:
    """Return whether the points of a grid are whole cells of a table that was read. Raises ValueError where it is none.

    They are counted from the run's start, as the recorder knew it.
    """
    if not table.schema.equals(SHAPE) or any(table[name].null_count for name in ("time", "column", "sum", "seen")):
        raise ValueError("it has no cells of samples")
    at = times(table.filter(pc.greater(table["seen"], 0)).slice(0, 1))
    return bool(len(at)) and grid.step % CELL == 0 and (at[0].as_py() - grid.start) % CELL == 0


def rows_of(table: pa.Table, chosen: Mapping[str, object]) -> Iterator[Row]:
    """Yield the rows of a table that are of columns whose declaration is `chosen`, in their order."""
    some = table.filter(pc.is_in(table["column"], value_set=pa.array(list(chosen), pa.string())))
    columns = [times(some), *(some[name].combine_chunks() for name in SHAPE.names[1:])]
    yield from zip(*(column.to_pylist() for column in columns), strict=True)


def declarations(table: pa.Table) -> list[str]:
    """Return which columns a table has cells of, by their declarations."""
    return [text for text in table["column"].combine_chunks().unique().to_pylist() if text != TICKS]
