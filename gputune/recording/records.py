"""Guests' records as tables, one a kind, and back.

Times are kept on a grid of at most 1/128 of the median time between batches of the segment, rounded down. All times of
a segment are on the same grid, so what was nested stays nested and in order, and durations are right on average. Only
fetches have a grid of their own, 1/128 of their median duration: they are nested in nothing.
A time is `time` (milliseconds) and `us` (the microseconds after it): apart they compress to half.
"""

from array import array
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gputune.core.events import SPAN_NAMES, Kind

FIELDS = ("process", "kind", "code", "t0", "t1", "a", "b", "d", "e", "c")
RAW = pa.schema([(name, pa.int64()) for name in FIELDS])

GRIDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)  # µs; each divides a millisecond


class Column(NamedTuple):
    """A column of a table: which field of a record it shows, and how.

    `how`: `n` the number; `n?` the number, -1 is unknown; `ns` nanoseconds; `ns?` the same, -1 is unknown; `span`
    the name of a span code; `kind` the name of a kind. The field `t1` as `ns` is the duration t1 - t0.
    """

    name: str
    field: str
    how: str = "n"
    type: pa.DataType = pa.int64()


def _seconds(name: str, field: str = "t1", how: str = "ns") -> Column:
    return Column(name, field, how, pa.float64())


COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "batches": (
        Column("iterator", "a"),
        Column("index", "b"),
        _seconds("wait"),
        Column("ready", "d", "n?", pa.int32()),
        Column("samples", "c", "n", pa.int32()),
        Column("code", "code", "n", pa.int16()),
    ),
    "fetches": (
        _seconds("seconds"),
        _seconds("cpu", "a"),
        _seconds("queued", "b", "ns?"),
        _seconds("collate", "d"),
        Column("bytes", "e"),
        Column("samples", "c", "n", pa.int32()),
        Column("code", "code", "n", pa.int16()),
    ),
    "steps": (Column("what", "kind", "kind", pa.string()), _seconds("seconds"), Column("optimizer", "a")),
    "gaps": (
        _seconds("seconds"),
        _seconds("idle", "a"),
        _seconds("work", "b"),
        Column("index", "d"),
        Column("behind", "c"),
    ),
    "spans": (
        Column("span", "code", "span", pa.string()),
        _seconds("seconds"),
        Column("site", "a"),
        Column("bytes", "b"),
        Column("thread", "e"),
        Column("iterator", "d"),
        Column("detail", "c", "n", pa.int32()),
    ),
    "events": (
        Column("kind", "kind", "n", pa.int32()),
        Column("code", "code", "n", pa.int32()),
        _seconds("seconds", "t1", "ns?"),
        *(Column(name, name) for name in "abdec"),
    ),
}
KINDS: Mapping[str, tuple[Kind, ...]] = {
    "batches": (Kind.BATCH,),
    "fetches": (Kind.FETCH,),
    "steps": (Kind.STEP, Kind.BACKWARD),
    "gaps": (Kind.GAP,),
    "spans": (Kind.SPAN,),
}  # what is in none of them is in `events`
NAMES: Mapping[str, Mapping[int, str]] = {
    "span": SPAN_NAMES,
    "kind": {Kind.STEP: "optimizer", Kind.BACKWARD: "backward"},
}
_START = [("time", pa.timestamp("ms", "UTC")), ("us", pa.int16()), ("process", pa.int32())]
SHAPES = {table: pa.schema([*_START, *((c.name, c.type) for c in columns)]) for table, columns in COLUMNS.items()}


def from_frames(events: pa.Table) -> pa.Table:
    """Return the records of the frames' events table, a column a field."""
    flat = events["fields"].combine_chunks().flatten()
    height = len(events)
    arrays = []
    for place in range(len(FIELDS)):
        at = array("q", range(place, height * len(FIELDS), len(FIELDS)))
        arrays.append(flat.take(pa.Array.from_buffers(pa.int64(), height, [None, pa.py_buffer(at)])))
    return pa.Table.from_arrays(arrays, schema=RAW)


def grid(events: pa.Table) -> int:
    """Return the grid in µs that is fine enough for these records."""
    rhythm = _rhythm(events, Kind.BATCH) or _rhythm(events, Kind.STEP)
    return 10 if rhythm is None else _fine(rhythm)  # µs: the grid of a segment without batches and optimizer steps


def _fine(ns: float) -> int:
    # 128 grid steps in a median interval: one time is off by 0.8 % of a step at most, the mean of many by nothing
    return max((g for g in GRIDS if g * 1000 * 128 <= ns), default=GRIDS[0])


def _fetch_grid(fetches: pa.Table, grid_us: int) -> int:
    """Return the grid of fetches: that of their durations if it is coarser than the segment's."""
    if not len(fetches):
        return grid_us
    median = pc.quantile(pc.subtract(fetches["t1"], fetches["t0"]), 0.5)[0].as_py()
    return max(grid_us, _fine(median))


def _rhythm(events: pa.Table, kind: Kind) -> float | None:
    """Return the shortest median interval (ns) at which any process makes records of this kind."""
    mine = events.filter(pc.equal(events["kind"], int(kind)))
    found = []
    # 64: looked at for the rhythm; ranks of one node keep time with each other
    for process in mine["process"].unique().slice(0, 64):
        t0 = mine["t0"].filter(pc.equal(mine["process"], process))
        if len(t0) > 1:
            between = pc.abs(pc.subtract(t0.slice(1), t0.slice(0, len(t0) - 1)))
            found.append(pc.quantile(between, 0.5)[0].as_py())
    return min(found, default=None)


def split(events: pa.Table, grid_us: int, offset: int) -> dict[str, pa.Table]:
    """Return the tables of these records, times on the grid and moved by `offset` (ns) to Unix time."""
    tables = {}
    for table, kinds in KINDS.items():
        mine = events.filter(_among(events["kind"], kinds))
        tables[table] = _table(table, mine, _fetch_grid(mine, grid_us) if table == "fetches" else grid_us, offset)
    every = [kind for kinds in KINDS.values() for kind in kinds]
    tables["events"] = _table("events", events.filter(pc.invert(_among(events["kind"], every))), grid_us, offset)
    return tables


def _among(column: pa.ChunkedArray, kinds: Iterable[Kind]) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array([int(kind) for kind in kinds], pa.int64()))


def _table(table: str, rows: pa.Table, grid_us: int, offset: int) -> pa.Table:
    t0 = _on_grid(pc.add(rows["t0"], offset), grid_us)
    t1 = _on_grid(pc.add(rows["t1"], offset), grid_us)
    never = pc.equal(rows["t1"], 0)
    milliseconds = pc.divide(t0, 1000)
    arrays = [milliseconds, pc.subtract(t0, pc.multiply(milliseconds, 1000)), rows["process"]]
    for column in COLUMNS[table]:
        values = rows[column.field]
        if column.field == "t1":
            values = pc.if_else(never, None, pc.subtract(t1, t0)) if column.how == "ns?" else pc.subtract(t1, t0)
            values = pc.divide(values.cast(pa.float64()), 1e6)
        elif column.how in {"ns", "ns?"}:
            near = pc.subtract(_on_grid(pc.add(pc.add(rows["t0"], offset), values), grid_us), t0)  # as if it came first
            near = pc.if_else(pc.less(values, 0), None, near) if column.how == "ns?" else near
            values = pc.divide(near.cast(pa.float64()), 1e6)
        elif column.how == "n?":
            values = pc.if_else(pc.less(values, 0), None, values)
        elif column.how in NAMES:
            values = _named(values, NAMES[column.how])
        arrays.append(values)
    return pa.Table.from_arrays(
        [a.cast(f.type, safe=False) for a, f in zip(arrays, SHAPES[table], strict=True)], schema=SHAPES[table]
    )


def _on_grid(ns: pa.ChunkedArray, grid_us: int) -> pa.ChunkedArray:
    """Return nanoseconds as microseconds, rounded down to a multiple of the grid."""
    return pc.multiply(pc.divide(ns, grid_us * 1000), grid_us)


def _named(codes: pa.ChunkedArray, names: Mapping[int, str]) -> pa.ChunkedArray:
    """Return the codes' names; a code without one is shown as its number."""
    place = pc.index_in(codes, value_set=pa.array(list(map(int, names)), pa.int64()))
    return pc.coalesce(pa.array(list(names.values()), pa.string()).take(place), codes.cast(pa.string()))


TABLES = ("events", *KINDS)


def join(parts: Iterable[pa.Table]) -> pa.Table:
    """Return the records of a segment's tables in the order in which they ended; inner ones before outer ones."""
    return in_order(pa.concat_tables([RAW.empty_table(), *parts]))


def ended(rows: pa.Table) -> pa.ChunkedArray:
    """Return when each record was over (ns); one that lasts counts from its start."""
    return pc.if_else(pc.equal(rows["t1"], 0), rows["t0"], rows["t1"])


def in_order(rows: pa.Table) -> pa.Table:
    """Return records in the order in which they ended, inner ones before outer ones.

    Where the grid of the recording has made two alike, the kind decides: the fetch is inside the batch (2, 1).
    """
    keys = pa.table({"ended": ended(rows), "began": rows["t0"], "kind": rows["kind"]})
    return rows.take(pc.sort_indices(keys, [("ended", "ascending"), ("began", "descending"), ("kind", "descending")]))


def of_table(table: str, rows: pa.Table, offset: int) -> pa.Table:
    """Return the records of one of the tables, in its order. Raises what pyarrow raises where it is no such table."""
    height = len(rows)
    nothing = pa.array(array("q", bytes(8 * height)), pa.int64()) if height else pa.array([], pa.int64())
    us = pc.add(pc.multiply(rows["time"].cast(pa.int64()), 1000), rows["us"].cast(pa.int64()))
    t0 = pc.subtract(pc.multiply(us, 1000), offset)
    found = {"process": rows["process"].cast(pa.int64()), "t0": t0}
    if len(KINDS.get(table, ())) == 1:
        found["kind"] = pc.add(nothing, int(KINDS[table][0]))
    for column in COLUMNS[table]:
        if column.name not in rows.column_names:  # of a recording by an older gputune: 0, as older guests told it
            continue
        values = rows[column.name]
        if column.how in {"ns", "ns?"}:
            values = pc.round(pc.multiply(values, 1e6)).cast(pa.int64())
            values = pc.multiply(values, 1000)
            if column.field == "t1":
                values = pc.add(t0, values).fill_null(0)
        elif column.how in NAMES:
            values = _coded(values, NAMES[column.how])
        found[column.field] = values.cast(pa.int64()).fill_null(-1)
    return pa.Table.from_arrays([found.get(name, nothing) for name in FIELDS], schema=RAW)


def _coded(names: pa.ChunkedArray, codes: Mapping[int, str]) -> pa.ChunkedArray:
    known = pa.array(list(codes.values()), pa.string())
    numbers = pa.array(list(map(int, codes)), pa.int64())
    place = pc.index_in(names, value_set=known)
    rest = pc.if_else(pc.is_valid(place), None, names).cast(pa.int64())
    return pc.coalesce(numbers.take(place), rest)
