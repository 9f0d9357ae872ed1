"""Segments back into readings: what the recorder took, in an order that a gatherer can follow."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple, cast

import pyarrow as pa
import pyarrow.compute as pc

from gputune.events import Event, Record
from gputune.recording import parquet, records, tables
from gputune.recording.about import Damaged
from gputune.recording.encoding import declared
from gputune.recording.folder import TABLES, Folder, frames_name, part_name
from gputune.recording.frames import Table, whole
from gputune.recording.keeping import declarations
from gputune.sample import Guest, Json, Note, Open, Reading, Sample, Stack

NO_SAMPLES = pa.schema([("time", tables.US)]).empty_table()
Segment = tables.Raw | dict[str, pa.Table]


class Mark(NamedTuple):
    """A reading between records: after all that ended before `t`, and (`late`) also after those that ended at `t`."""

    t: int
    late: bool
    reading: Reading


def segments(folder: Folder) -> Iterator[Segment]:
    """Yield the segments in order, as frames where they still are."""
    for segment in sorted({*folder.frames(), *folder.parts()}):
        yield read_segment(folder, segment)


def read_segment(folder: Folder, segment: int) -> Segment:
    """Return one segment, as frames where it still is."""
    try:
        return tables.raw(whole(folder.read(frames_name(segment))))
    except FileNotFoundError:  # they are Parquet, perhaps since a moment ago
        parts = folder.parts().get(segment, ())
        return {name: _decoded(folder, part_name(name, segment)) for name in parts}


def _decoded(folder: Folder, name: str) -> pa.Table:
    data = folder.read(name)
    try:
        return parquet.decode(data)
    except (pa.ArrowException, OSError) as error:  # OSError is what pyarrow says of a wrong checksum
        raise Damaged(name, str(error).partition(". ")[0]) from None


def whole_tables(folder: Folder, offset: int) -> dict[str, pa.Table]:
    """Return every table of the run, segments put together."""
    found: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    for segment in segments(folder):
        kept = tables.kept(segment, offset) if isinstance(segment, tables.Raw) else segment
        for name, table in kept.items():
            found[name].append(table.replace_schema_metadata())
    shapes = {**tables.SHAPES, "samples": NO_SAMPLES.schema}
    return {
        name: pa.concat_tables([shapes[name].empty_table(), *parts], promote_options="permissive")
        for name, parts in found.items()
    }


def replay(folder: Folder, offset: int) -> Iterator[list[Reading]]:
    """Yield the readings of the run, one list a tick."""
    for segment in segments(folder):
        yield from replayed(segment, offset)


def replayed(segment: Segment, offset: int) -> Iterator[list[Reading]]:
    """Yield the readings of one segment, or of a part of one, one list a tick."""
    if isinstance(segment, tables.Raw):
        columns = dict(tables.names(segment))
        samples = tables.samples(segment, offset, columns)
        events = records.in_order(records.from_frames(segment.table(Table.EVENTS)))
        notes, stacks = segment.table(Table.NOTES), segment.table(Table.STACKS)
    else:
        samples = segment.get("samples", NO_SAMPLES)
        columns = declarations(samples.schema.metadata)
        events = records.join(segment, offset)
        notes, stacks = (
            _clocked(segment.get(name, tables.SHAPES[name].empty_table()), offset) for name in ("notes", "stacks")
        )
    yield from merged(_ticks(samples, columns, offset), events, sorted(marks(notes, stacks), key=lambda m: m[:2]))


def _clocked(table: pa.Table, offset: int) -> pa.Table:
    """Return the table with its time as ns of the monotonic clock in front, as frames have it."""
    return table.set_column(0, "t", tables.monotonic(table["time"], offset))


def merged(ticks: Iterator[list[Sample]], events: pa.Table, marks: list[Mark]) -> Iterator[list[Reading]]:
    """Yield tick after tick what had ended or was said by then, and its samples."""
    ended = numbers(records.ended(events))
    fields = [numbers(events[name]) for name in records.FIELDS]
    made = [Event(process, Record(*record)) for process, *record in zip(*fields, strict=True)]
    event = mark = 0
    for samples in [*ticks, None]:
        until = bisect_right(ended, samples[0].t, event) if samples else len(made)
        tick: list[Reading] = []
        while mark < len(marks) and (samples is None or marks[mark].t <= samples[0].t):
            find = bisect_right if marks[mark].late else bisect_left
            place = find(ended, marks[mark].t, event)
            tick += made[event:place]
            tick.append(marks[mark].reading)
            event = place
            mark += 1
        tick += made[event:until]
        event = max(event, until)
        tick += samples or []
        if tick:
            yield tick


def _ticks(samples: pa.Table, columns: dict[str, str], offset: int) -> Iterator[list[Sample]]:
    """Yield the samples of each row."""
    times = numbers(tables.monotonic(samples["time"], offset))
    names = [declared(columns[name]) for name in samples.column_names[1:]]
    values = [column.to_pylist() for column in samples.columns[1:]]
    for t, row in zip(times, zip(*values, strict=True), strict=False):
        tick = [
            Sample(metric, t, value, instance)
            for (metric, instance), value in zip(names, row, strict=True)
            if value is not None
        ]
        if tick:
            yield tick


def marks(notes: pa.Table, stacks: pa.Table) -> Iterator[Mark]:
    """Yield what was said and where stacks were, in no order."""
    for row in notes.to_pylist():
        fields = json.loads(row["fields"])
        if row["what"] == "guest":
            yield Mark(row["t"], late=False, reading=Guest(**fields))
        elif row["what"] == "open":
            yield Mark(row["t"], late=True, reading=Open(**fields))
        else:
            yield Mark(row["t"], late=False, reading=Note(row["process"], cast("dict[str, Json]", fields)))
    for row in stacks.to_pylist():
        yield Mark(row["t"], late=True, reading=Stack(row["t"], row["pid"], tuple(row["frames"]), row["count"]))


def numbers(column: pa.ChunkedArray) -> list[int]:
    """Return an int64 column as a list, ten times as fast as `to_pylist`."""
    whole_column = pc.cast(column.combine_chunks(), pa.int64())
    _, data = whole_column.buffers()
    if data is None:
        return []
    start = whole_column.offset
    return memoryview(data).cast("B").cast("q")[start : start + len(whole_column)].tolist()
