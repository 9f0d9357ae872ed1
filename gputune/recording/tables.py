"""The tables that are kept, as Arrow tables: a segment's frames in, one table a kind of row out.

`samples` has a column a metric and instance; events are split by what they are (`gputune/recording/records.py`).
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from gputune.core.sample import Metric
from gputune.recording import records
from gputune.recording.encoding import SCHEMAS, declared
from gputune.recording.frames import SCHEMA, FrameTable, RecordedFrame
from gputune.recording.lean import lid

US = pa.timestamp("us", "UTC")
NOTES = pa.schema([("time", US), ("what", pa.string()), ("process", pa.int32()), ("fields", pa.string())])
STACKS = pa.schema(
    [
        ("time", US),
        ("pid", pa.int32()),
        ("frames", pa.list_(pa.string())),
        ("count", pa.int32()),
        ("held", pa.bool_()),
    ]
)
HELD = STACKS.get_field_index("held")
SHAPES: Mapping[str, pa.Schema] = {**records.SHAPES, "notes": NOTES, "stacks": STACKS}
NEVER_NULL: Mapping[str, tuple[str, ...]] = {"notes": tuple(NOTES.names), "stacks": tuple(STACKS.names[:HELD])}

DROPPED_BITS = 13  # of the 24 significant bits of a noisy gauge: 11 stay, an error of 0.05 % at most
NOISY = frozenset({"ratio", "cores", "W", "degC", "s", "B/s", "Hz"})  # others (bytes, counts, masks) keep all 24 bits


@dataclass(slots=True)
class Raw:
    """What the frames of one segment hold, exactly as it was taken."""

    columns: dict[int, str] = field(default_factory=dict)  # id to declaration
    schemas: dict[FrameTable, pa.Schema] = field(default_factory=lambda: dict(SCHEMAS))
    batches: dict[int, list[pa.RecordBatch]] = field(default_factory=dict)
    trouble: str = ""  # why frames that came whole were left out: nobody writes such

    def take(self, frame: RecordedFrame) -> None:
        """Take what a frame holds. What is not as it is written is left out, and told as trouble."""
        try:
            self._take(frame)
        except Exception as error:  # noqa: BLE001 - a frame may be anybody's, and pyarrow's words for it are many
            self.trouble = self.trouble or str(error).partition("\n")[0] or type(error).__name__

    def _take(self, frame: RecordedFrame) -> None:
        if frame.table & SCHEMA:
            self.schemas[FrameTable(frame.table & ~SCHEMA)] = pa.ipc.read_schema(pa.py_buffer(frame.payload))
            return
        table = FrameTable(frame.table)
        batch = checked(frame.payload, self.schemas[table])
        if table == FrameTable.STACKS and batch.schema == SCHEMAS[table].remove(HELD):  # of an older gputune
            batch = batch.append_column(SCHEMAS[table].field(HELD), pa.repeat(False, len(batch)))  # noqa: FBT003 - a value
        if batch.schema != SCHEMAS[table]:
            raise ValueError(f"{table.name.lower()} of another kind")
        if table == FrameTable.COLUMNS:
            said = dict(zip(batch["id"].to_pylist(), batch["about"].to_pylist(), strict=True))
            for about in said.values():
                declared(about)
            self.columns.update(said)
        else:
            self.batches.setdefault(table, []).append(batch)

    def table(self, table: FrameTable) -> pa.Table:
        """Return all rows of one table of the frames."""
        return pa.Table.from_batches(self.batches.get(table, []), schema=SCHEMAS[table]).combine_chunks()


def raw(frames: Iterable[RecordedFrame], before: Raw | None = None) -> Raw:
    """Put the frames of one segment together, or those that came after `before`, what it declared included."""
    found = Raw(dict(before.columns), dict(before.schemas)) if before else Raw()
    for frame in frames:
        found.take(frame)
    return found


def checked(payload: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch of a frame, whose places were all looked at: one that leads out of it would end the process.

    Raises what pyarrow raises, and ValueError where it holds more than its bytes, as no recorder writes it.
    """
    with lid():
        batch = pa.ipc.read_record_batch(pa.py_buffer(payload), schema)
    batch.validate(full=True)
    if batch.nbytes > len(payload) or any(map(_holes, batch.columns)):
        raise ValueError("more than its bytes, or less than a value for each")
    return batch


def _holes(column: pa.Array) -> bool:
    """Return whether a value is missing; in frames none ever is."""
    nested = pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type)
    return bool(column.null_count or (nested and column.flatten().null_count))


def check(name: str, table: pa.Table, *, whole: bool = True) -> None:
    """Raise ValueError where a table that was read is not as it is kept; of an older gputune it may lack columns.

    Not `whole`: only some of its columns were read, `time` among them.
    """
    shape = SHAPES.get(name)
    always = NEVER_NULL.get(name, ("time", "us", "process")) if shape is not None and whole else ("time",)
    for column in always:
        if column not in table.column_names or table[column].null_count:
            raise ValueError(f"it lacks `{column}`")
    for found in table.schema:
        known = US if found.name == "time" and shape is None else None
        if shape is not None and found.name in shape.names:
            known = shape.field(found.name).type
        if known is None and shape is not None:
            continue  # of a newer gputune
        if found.type != known and (known is not None or not _is_number(found.type)):
            raise ValueError(f"its `{found.name}` is of another kind")


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def kept(source: Raw, offset: int, known: Mapping[str, str] | None = None) -> dict[str, pa.Table]:
    """Return the tables to keep. `offset`: ns from the monotonic clock to Unix time, whole milliseconds.

    `known` are columns (name to declaration) that samples are to have in any case, in this order, before new ones.
    """
    events = records.from_frames(source.table(FrameTable.EVENTS))
    grid = records.grid(events)
    tables = {"samples": samples(source, offset, known or {})}
    tables.update(records.split(events, grid, offset))
    notes = source.table(FrameTable.NOTES)
    tables["notes"] = notes.set_column(0, "time", stamps(notes["t"], offset, grid)).cast(NOTES)
    stacks = source.table(FrameTable.STACKS)
    tables["stacks"] = stacks.set_column(0, "time", stamps(stacks["t"], offset, 1)).cast(STACKS)
    return tables


def stamps(t: pa.ChunkedArray, offset: int, grid: int) -> pa.ChunkedArray:
    """Return ns of the monotonic clock as timestamps on a grid of `grid` µs."""
    us = pc.multiply(pc.divide(pc.add(t, offset), grid * 1000), grid)
    return us.cast(US)


def monotonic(time: pa.ChunkedArray, offset: int) -> pa.ChunkedArray:
    """Return timestamps in µs as ns of the monotonic clock."""
    return pc.subtract(pc.multiply(time.cast(pa.int64()), 1000), offset)


def samples(source: Raw, offset: int, known: Mapping[str, str]) -> pa.Table:
    """Return the wide table: a row a tick, a column a metric and instance, null where nothing was read."""
    rows = source.table(FrameTable.SAMPLES)
    column = rows["column"].combine_chunks().flatten()
    value = rows["value"].combine_chunks().flatten()
    row = pc.list_parent_indices(rows["column"].combine_chunks())
    value = pc.if_else(pc.is_finite(value), value, pa.scalar(None, pa.float64()))
    here = {column_name(about): (id_, about) for id_, about in source.columns.items()}
    fields = [pa.field("time", US)]
    arrays = [stamps(rows["t"], offset, 1)]
    for name, about in {**known, **{name: about for name, (_, about) in here.items()}}.items():
        metric, _ = declared(about)
        fields.append(_field(name, about))
        if name in here:
            mine = pc.equal(column, here[name][0])
            arrays.append(_column(metric, value.filter(mine), row.filter(mine), len(rows)))
        else:
            arrays.append(pa.nulls(len(rows), _type(metric)))
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def widened(table: pa.Table, known: Mapping[str, str]) -> pa.Table:
    """Return a samples table with all `known` columns, in their order."""
    fields = [_field(name, about) for name, about in known.items()]
    wanted = pa.schema([table.schema.field("time"), *fields])
    return pa.concat_tables([wanted.empty_table(), table.replace_schema_metadata()], promote_options="default")


def column_name(about: str) -> str:
    """Return the name of a declared column: `gpu.busy` of instance `0` is `gpu.busy[0]`."""
    metric, instance = declared(about)
    return f"{metric.name}[{instance}]" if instance else metric.name


def names(source: Raw) -> Iterator[tuple[str, str]]:
    """Yield the name and the declaration of every column of the segment."""
    for about in source.columns.values():
        yield column_name(about), about


def _field(name: str, about: str) -> pa.Field:
    return pa.field(name, _type(declared(about)[0]))


def _type(metric: Metric) -> pa.DataType:
    return pa.int64() if metric.kind == "counter" else pa.float32()


def _column(metric: Metric, values: pa.Array, rows: pa.Array, height: int) -> pa.Array:
    """Return one column: its values at their rows, null in the others."""
    values = values.cast(_type(metric), safe=False)
    if metric.kind == "gauge" and metric.unit in NOISY:
        values = rounded(values)
    if len(values) == height:
        return values
    every = pa.Array.from_buffers(pa.int64(), height, [None, pa.py_buffer(array("q", range(height)))])
    return values.take(pc.index_in(every, value_set=rows.cast(pa.int64())))


def rounded(values: pa.Array) -> pa.Array:
    """Return float32 values rounded to 11 significant bits: what is left out would be most of the file."""
    half, mask = 1 << (DROPPED_BITS - 1), -(1 << DROPPED_BITS)
    bits = pc.add(values.view(pa.int32()), pa.scalar(half, pa.int32()))
    return pc.bit_wise_and(bits, pa.scalar(mask, pa.int32())).view(pa.float32())
