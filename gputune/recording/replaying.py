"""Segments back into readings: what the recorder took, in an order that a gatherer can follow."""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from gputune.core.events import Event, Record
from gputune.core.hygiene import clean
from gputune.core.sample import Guest, Metric, Note, Open, Reading, Sample, Stack
from gputune.recording import parquet, records, tables
from gputune.recording.about import Damaged
from gputune.recording.encoding import declared
from gputune.recording.folder import TABLES, Folder, frames_name, part_name
from gputune.recording.frames import FrameTable, whole
from gputune.recording.keeping import declarations

NO_SAMPLES = pa.schema([("time", tables.US)]).empty_table()
NO_TABLES: dict[str, pa.Table] = {}
NO_RECORDS = records.RAW.empty_table()
FRAMES = "frames"
PIECE = 1 << 12  # rows that are Python objects at once
MARKED = ("notes", "stacks")
WORDS = {"role": str, "state": str, "why": str}  # fields that are no numbers
Lost: TypeAlias = dict[str, str] | None  # files that cannot be read, and why; None: the first of them raises Damaged
Rows: TypeAlias = tuple[list[int], list[tuple[Metric, str]], list[pa.ChunkedArray]]
NO_ROWS: Rows = ([], [], [])
T = TypeVar("T")
R = TypeVar("R", Guest, Open)


class ReplayMark(NamedTuple):
    """A reading between records: after all that ended before `t`, and (`late`) also after those that ended at `t`."""

    t: int
    late: bool
    reading: Reading


@dataclass(frozen=True, slots=True)
class Parts:
    """A segment as Parquet: its tables, and its number."""

    number: int
    tables: Mapping[str, pa.Table]


Segment = tables.Raw | Parts


def lose(lost: Lost, file: str, error: object) -> None:
    """Put down in `lost` that a file cannot be read, and why; raise Damaged where nobody is there to be told."""
    why = clean(str(error).partition("\n")[0].partition(". ")[0]) or type(error).__name__
    if lost is None:
        raise Damaged(file, why) from None
    lost.setdefault(file, why)


def tried(lost: Lost, file: str, make: Callable[[], T], otherwise: T) -> T:
    """Return what is made of a file that anybody may have written; `otherwise` where nothing can be."""
    try:
        return make()
    except Damaged:
        raise
    except Exception as error:  # noqa: BLE001 - pyarrow's words for nonsense are many, and Python's as well
        lose(lost, file, error)
        return otherwise


def segments(folder: Folder, lost: Lost = None) -> Iterator[Segment]:
    """Yield the segments in order, as frames where they still are."""
    bound = parquet.Bound()
    for segment in sorted({*folder.frames(), *folder.parts()}):
        yield read_segment(folder, segment, bound, lost)


def read_segment(
    folder: Folder, segment: int, bound: parquet.Bound, lost: Lost = None, only: Container[str] = TABLES
) -> Segment:
    """Return one segment, as frames where it still is. What cannot be read is in `lost`; else Damaged is raised.

    As Parquet it has `only` these tables: what is not asked for is not read. `bound` is that of the run.
    """
    found = frames(folder, segment, lost)
    return Parts(segment, dict(_decoded(folder, segment, bound, lost, only))) if found is None else found


def frames(folder: Folder, segment: int, lost: Lost = None) -> tables.Raw | None:
    """Return the frames of a segment; None where there are none: they are Parquet, perhaps since a moment ago."""
    name = frames_name(segment)
    try:
        data = folder.read(name)
    except FileNotFoundError:
        return None
    except OSError as error:
        lose(lost, name, error.strerror or error)
        return tables.Raw()
    found = tables.raw(whole(data))
    if found.trouble:
        lose(lost, name, found.trouble)
    return found


def _decoded(
    folder: Folder, segment: int, bound: parquet.Bound, lost: Lost, only: Container[str]
) -> Iterator[tuple[str, pa.Table]]:
    for name in folder.parts().get(segment, ()):
        if name not in only:
            continue
        file = part_name(name, segment)
        table = tried(lost, file, partial(one_part, folder, name, file, bound), None)
        if table is not None:
            yield name, table


def one_part(folder: Folder, name: str, file: str, bound: parquet.Bound) -> pa.Table:
    """Return a part of the table of this name. Raises whatever pyarrow has to say of one that is damaged."""
    table = parquet.decode(folder.read(file), bound=bound)
    tables.check(name, table)
    return table


def whole_tables(folder: Folder, offset: int) -> dict[str, pa.Table]:
    """Return every table of the run, segments put together."""
    found: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
    for segment in segments(folder):
        if isinstance(segment, tables.Raw):
            kept = tried(None, FRAMES, partial(tables.kept, segment, offset), NO_TABLES)
        else:
            kept = dict(segment.tables)
        for name, table in kept.items():
            found[name].append(table.replace_schema_metadata())
    shapes = {**tables.SHAPES, "samples": NO_SAMPLES.schema}
    return {
        name: pa.concat_tables([shapes[name].empty_table(), *parts], promote_options="permissive")
        for name, parts in found.items()
    }


def replay(folder: Folder, offset: int, lost: Lost = None) -> Iterator[list[Reading]]:
    """Yield the readings of the run, one list a tick."""
    for segment in segments(folder, lost):
        yield from replayed(segment, offset, lost)


def replayed(segment: Segment, offset: int, lost: Lost = None) -> Iterator[list[Reading]]:
    """Yield the readings of one segment, or of a part of one, one list a tick."""
    if isinstance(segment, tables.Raw):
        return _of_frames(segment, offset, lost)
    return _of_parts(segment, offset, lost)


def _of_frames(raw: tables.Raw, offset: int, lost: Lost) -> Iterator[list[Reading]]:
    columns = dict(tables.names(raw))
    rows = tried(lost, FRAMES, lambda: rows_of(tables.samples(raw, offset, columns), columns, offset), NO_ROWS)
    events = tried(
        lost, FRAMES, lambda: records.in_order(records.from_frames(raw.table(FrameTable.EVENTS))), NO_RECORDS
    )
    said = sorted(marks(raw.table(FrameTable.NOTES), raw.table(FrameTable.STACKS), lost), key=_when)
    return merged(ticks_of(*rows), events, said)


def _of_parts(segment: Parts, offset: int, lost: Lost) -> Iterator[list[Reading]]:
    found = segment.tables
    samples = found.get("samples", NO_SAMPLES)
    rows = tried(
        lost,
        part_name("samples", segment.number),
        lambda: rows_of(samples, declarations(samples.schema.metadata), offset),
        NO_ROWS,
    )
    events = [
        tried(lost, part_name(name, segment.number), partial(records.of_table, name, found[name], offset), NO_RECORDS)
        for name in records.TABLES
        if name in found
    ]
    notes, stacks = (_clocked(found.get(name, tables.SHAPES[name].empty_table()), offset) for name in MARKED)
    files = (part_name(MARKED[0], segment.number), part_name(MARKED[1], segment.number))
    return merged(ticks_of(*rows), records.join(events), sorted(marks(notes, stacks, lost, files), key=_when))


def _clocked(table: pa.Table, offset: int) -> pa.Table:
    """Return the table with its time as ns of the monotonic clock in front, as frames have it."""
    return table.set_column(0, "t", tables.monotonic(table["time"], offset))


def _when(mark: ReplayMark) -> tuple[int, bool]:
    return mark.t, mark.late


def merged(ticks: Iterator[list[Sample]], events: pa.Table, marks: list[ReplayMark]) -> Iterator[list[Reading]]:
    """Yield tick after tick what had ended or was said by then, and its samples."""
    ended = numbers(records.ended(events))
    made = _Made(events)
    event = mark = 0
    for samples in chain(ticks, (None,)):
        until = bisect_right(ended, samples[0].t, event) if samples else len(ended)
        tick: list[Reading] = []
        while mark < len(marks) and (samples is None or marks[mark].t <= samples[0].t):
            find = bisect_right if marks[mark].late else bisect_left
            place = find(ended, marks[mark].t, event)
            tick += made.until(place)
            tick.append(marks[mark].reading)
            event = place
            mark += 1
        event = max(event, until)
        while event - made.at > PIECE:
            yield [*tick, *made.until(made.at + PIECE)]
            tick = []
        tick += [*made.until(event), *(samples or [])]
        if tick:
            yield tick


class _Made:
    """Records as events, made as they are asked for: those of a whole segment would be half a gigabyte."""

    def __init__(self, events: pa.Table) -> None:
        self._events = events
        self._made: Iterator[Event] = chain.from_iterable(map(self._piece, range(0, len(events), PIECE)))
        self.at = 0

    def until(self, place: int) -> list[Event]:
        """Return those that were not asked for yet, up to a place."""
        found = list(islice(self._made, max(0, place - self.at)))
        self.at += len(found)
        return found

    def _piece(self, start: int) -> Iterator[Event]:
        fields = [numbers(self._events[name].slice(start, PIECE)) for name in records.FIELDS]
        return (Event(process, Record(*record)) for process, *record in zip(*fields, strict=True))


def rows_of(samples: pa.Table, columns: Mapping[str, str], offset: int) -> Rows:
    """Return the times of the ticks, the metrics of the columns, and the columns' values."""
    times = numbers(tables.monotonic(samples["time"], offset))
    names = [declared(columns[name]) for name in samples.column_names[1:]]
    return times, names, samples.columns[1:]


def ticks_of(
    times: list[int], names: list[tuple[Metric, str]], columns: list[pa.ChunkedArray]
) -> Iterator[list[Sample]]:
    """Yield the samples of each row."""
    pieces = ([column.slice(start, PIECE).to_pylist() for column in columns] for start in range(0, len(times), PIECE))
    for t, row in zip(times, chain.from_iterable(zip(*values, strict=True) for values in pieces), strict=False):
        tick = [
            Sample(metric, t, value, instance)
            for (metric, instance), value in zip(names, row, strict=True)
            if value is not None
        ]
        if tick:
            yield tick


def marks(
    notes: pa.Table, stacks: pa.Table, lost: Lost = None, files: tuple[str, str] = (FRAMES, FRAMES)
) -> list[ReplayMark]:
    """Return what was said and where stacks were, in no order."""
    found = [tried(lost, files[0], partial(_said, row), None) for row in notes.to_pylist()]
    found += [ReplayMark(row["t"], late=True, reading=_stack(row)) for row in stacks.to_pylist()]
    return [mark for mark in found if mark is not None]


def _stack(row: Mapping[str, Any]) -> Stack:
    return Stack(row["t"], row["pid"], tuple(row["frames"]), row["count"], bool(row.get("held")))


def _said(row: Mapping[str, object]) -> ReplayMark | None:
    """Return a row of the notes as what it was. Raises ValueError, and TypeError, where it was nothing."""
    fields = json.loads(str(row["fields"]))
    if not isinstance(fields, dict):
        raise ValueError("a note that says nothing")
    t = cast("int", row["t"])
    if row["what"] == "guest":
        return ReplayMark(t, late=False, reading=_as_said(Guest(**fields)))
    if row["what"] == "open":
        return ReplayMark(t, late=True, reading=_as_said(Open(**fields)))
    return ReplayMark(t, late=False, reading=Note(cast("int", row["process"]), fields))


def _as_said(reading: R) -> R:
    """Return a reading whose fields are of the kinds that it declares, in which they were written."""
    for name, value in zip(reading._fields, reading, strict=True):
        if not isinstance(value, WORDS.get(name, int)):
            raise ValueError(f"a note with an odd `{name}`")
    return reading


def numbers(column: pa.ChunkedArray) -> list[int]:
    """Return an int64 column as a list, ten times as fast as `to_pylist`."""
    whole_column = pc.cast(column.combine_chunks(), pa.int64())
    _, data = whole_column.buffers()
    if data is None:
        return []
    start = whole_column.offset
    return memoryview(data).cast("B").cast("q")[start : start + len(whole_column)].tolist()
