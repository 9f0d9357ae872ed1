"""The table of what was tried in a run (docs/experiments.md): a view of records that lie in `events`."""

import pyarrow as pa
import pyarrow.compute as pc

from gputune.core.events import DelayCode, Kind, SegmentCode

TABLE = "experiments"
NAMES = {
    0: "delay",
    DelayCode.STANDS: "fill",
    DelayCode.SLOWS: "slope",
    DelayCode.LONE: "lone",
}  # of DELAY records, by their code
HOLD = "hold"
SHAPE = pa.schema(
    [
        ("time", pa.timestamp("ms", "UTC")),
        ("us", pa.int16()),
        ("process", pa.int32()),
        ("what", pa.string()),
        ("seconds", pa.float64()),
        ("block", pa.int64()),
        ("iterator", pa.int64()),
        ("ready", pa.int64()),
    ]
)


def of(events: pa.Table) -> pa.Table:
    """Return the experiments among the rows of `events`, in their order."""
    return pa.concat_tables([_delays(events), _holds(events)]).sort_by([("time", "ascending"), ("us", "ascending")])


def _delays(events: pa.Table) -> pa.Table:
    rows = events.filter(pc.equal(events["kind"], int(Kind.DELAY)))
    codes = rows["code"]
    place = pc.index_in(codes, value_set=pa.array(list(NAMES), codes.type))
    what = pc.coalesce(pa.array(list(NAMES.values())).take(place), codes.cast(pa.string()))
    slope, fill, delay = (pc.equal(codes, code) for code in (DelayCode.SLOWS, DelayCode.STANDS, 0))
    block = pc.if_else(slope, rows["b"], pc.if_else(delay, rows["a"], None))
    return _table(
        rows, what, rows["seconds"], block, pc.if_else(delay, None, rows["a"]), pc.if_else(fill, rows["d"], None)
    )


def _holds(events: pa.Table) -> pa.Table:
    of_device = pc.and_(
        pc.equal(events["kind"], int(Kind.SEGMENT)), pc.equal(pc.bit_wise_and(events["code"], SegmentCode.HELD), 1)
    )
    rows = events.filter(of_device)
    none = pa.nulls(len(rows), pa.int64())
    what = pa.array([HOLD] * len(rows), pa.string())
    return _table(rows, what, pc.divide(rows["e"].cast(pa.float64()), 1e9), none, none, none)


def _table(rows: pa.Table, *columns: pa.Array | pa.ChunkedArray) -> pa.Table:
    every = [rows["time"], rows["us"], rows["process"], *columns]
    return pa.Table.from_arrays([a.cast(f.type) for a, f in zip(every, SHAPE, strict=True)], schema=SHAPE)
