"""Readings to frames, once a second: the hot path of a recording.

A tick's samples almost always have the metrics of an earlier tick, in the same order. So a tick is compared and laid
out by one call, and a frame is made of whole buffers: pyarrow never looks at a single value.
"""

import json
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from gputune.core.events import Event
from gputune.core.sample import Guest, Metric, Note, Open, Reading, Sample, Stack
from gputune.recording.frames import SCHEMA, FrameTable, frame
from gputune.recording.rows import ROWS, Heads, Rows, laid, packed

COLUMNS = 2000  # 8 devices and 192 cores need 600; instances without end (pids) must not make a table without end
FIELDS = 10  # process, and the nine numbers of a record
LEFT_OUT = 0xFFFF  # the id of a column beyond COLUMNS

SCHEMAS = {
    FrameTable.COLUMNS: pa.schema([("id", pa.uint16()), ("about", pa.string())]),
    FrameTable.SAMPLES: ROWS,
    FrameTable.EVENTS: pa.schema([("fields", pa.list_(pa.int64(), FIELDS))]),
    FrameTable.NOTES: pa.schema(
        [("t", pa.int64()), ("what", pa.string()), ("process", pa.int64()), ("fields", pa.string())]
    ),
    FrameTable.STACKS: pa.schema(
        [
            ("t", pa.int64()),
            ("pid", pa.int64()),
            ("frames", pa.list_(pa.string())),
            ("count", pa.int64()),
            ("held", pa.bool_()),
        ]
    ),
}


class Said(NamedTuple):
    """A row of the notes table: what is `guest`, `note` or `open`, fields are JSON."""

    t: int
    what: str
    process: int
    fields: str


class Layout(NamedTuple):
    """Which columns a tick's samples go into, in their order. `plain`: each column once, and none left out."""

    metrics: tuple[Metric, ...]
    instances: tuple[str, ...]
    ids: bytes
    plain: bool


class Rest:
    """Readings that are no samples: records as flat numbers, and what is rare as rows."""

    def __init__(self) -> None:
        self.records = array("q")
        self.said: list[Said] = []
        self.stacks: list[Stack] = []

    def add(self, t: int, readings: Sequence[Reading]) -> None:
        """Add the readings of a tick."""
        put, speaks = self.records.extend, False
        for reading in readings:
            if isinstance(reading, Event):
                put((reading[0], *reading[1]))  # by place: there are thousands a second
            elif isinstance(reading, Stack):
                self.stacks.append(reading)
            elif not isinstance(reading, Sample):
                speaks = True
        if speaks:
            self.said.extend(said(t, readings))

    def messages(self) -> Iterator[bytes]:
        """Yield the frames of the tables that have rows."""
        if self.records:
            numbers = pa.Array.from_buffers(pa.int64(), len(self.records), [None, pa.py_buffer(self.records)])
            yield _message(FrameTable.EVENTS, [pa.FixedSizeListArray.from_arrays(numbers, FIELDS)])
        if self.said:
            yield _message(FrameTable.NOTES, _transposed(FrameTable.NOTES, self.said))
        if self.stacks:
            yield _message(FrameTable.STACKS, _transposed(FrameTable.STACKS, self.stacks))


class Encoder:
    """Makes the frames of one segment, and knows which columns the segment has declared."""

    def __init__(self) -> None:
        self._columns: dict[tuple[str, str], int] = {}
        self._declared: list[tuple[int, str]] = []
        self._again: list[tuple[int, str]] = []  # without its declaration a column is lost: each is written twice
        self._layouts: list[Layout] = []
        self._heads = Heads()

    def encode(self, taken: Iterable[tuple[int, Sequence[Reading]]]) -> tuple[bytes, list[Said]]:
        """Return the frames, one a table, of what was taken ((ns, readings) of each tick), and what was said in it."""
        rows = Rows()
        rest = Rest()
        for now, readings in taken:
            t = self._whole(readings, rows)
            if t is None:
                samples = [r for r in readings if isinstance(r, Sample)]
                t = self._samples(samples, rows) if samples else now
                if len(samples) < len(readings):
                    rest.add(t, readings)
        out = []
        if self._declared or self._again:
            out.append(_message(FrameTable.COLUMNS, _transposed(FrameTable.COLUMNS, self._declared + self._again)))
            self._declared, self._again = [], self._declared
        if rows.times:
            out.append(frame(FrameTable.SAMPLES, self._heads.message(rows)))
        return b"".join([*out, *rest.messages()]), rest.said

    def _whole(self, readings: Sequence[Reading], rows: Rows) -> int | None:
        """Add a tick of samples that came like this before; return its time, None where it must be looked at closer."""
        for layout in self._layouts:
            found = laid(readings, layout.metrics, layout.instances) if layout.plain else None
            if found is not None:
                rows.add(found[0], layout.ids, found[1])
                return found[0]
        return None

    def _samples(self, samples: Sequence[Sample], rows: Rows) -> int:
        """Add one tick; return its time: its last sample's, or its first one's where probes answer late."""
        metrics, _, values, instances = zip(*samples, strict=True)
        layout = self._layout(metrics, instances)
        t = max(samples[0].t, samples[-1].t)
        if layout.plain:
            rows.add(t, layout.ids, packed(values))
        else:
            _add_each(samples, array("H", layout.ids), rows)
        return t

    def _layout(self, metrics: tuple[Metric, ...], instances: tuple[str, ...]) -> Layout:
        for layout in self._layouts:
            if layout.instances == instances and layout.metrics == metrics:
                return layout
        ids = array("H")
        for metric, instance in zip(metrics, instances, strict=True):
            key = (metric.name, instance)
            if key not in self._columns and len(self._columns) < COLUMNS:
                self._columns[key] = len(self._columns)
                self._declared.append((self._columns[key], declaration(metric, instance)))
            ids.append(self._columns.get(key, LEFT_OUT))
        plain = len(set(ids)) == len(ids) and LEFT_OUT not in ids
        layout = Layout(metrics, instances, ids.tobytes(), plain)
        # 64: kept for reuse: beats of 1, 2 and 10 s make a handful of combinations
        self._layouts = [layout, *self._layouts[: 64 - 1]]
        return layout


def _add_each(samples: Sequence[Sample], ids: "array[int]", rows: Rows) -> None:
    """Add a tick that has several samples of one column, as several rows: each sample in the first with room."""
    ticks: list[dict[int, Sample]] = []
    for column, sample in zip(ids, samples, strict=True):
        if column == LEFT_OUT:
            continue
        tick = next((tick for tick in ticks if column not in tick), None)
        if tick is None:
            tick = {}
            ticks.append(tick)
        tick[column] = sample
    for tick in ticks:
        rows.add(max(s.t for s in tick.values()), array("H", tick).tobytes(), packed([s.value for s in tick.values()]))


def said(t: int, readings: Sequence[Reading]) -> list[Said]:
    """Return the rows of the notes table: what was said of a process is dated before the records it came with."""
    first: dict[int, int] = {}
    found = []
    for reading in reversed(readings):
        if isinstance(reading, Event):
            ended = reading.record.t1 or reading.record.t0
            first[reading.process] = min(ended, first.get(reading.process, ended))
        elif isinstance(reading, Open):
            found.append(Said(t, "open", reading.process, json.dumps(reading._asdict())))
        elif isinstance(reading, Guest):
            when = min(t, first.get(reading.process, t))
            found.append(Said(when, "guest", reading.process, json.dumps(reading._asdict())))
        elif isinstance(reading, Note):
            when = min(t, int(str(reading.fields.get("t", t))), first.get(reading.process, t))
            found.append(Said(when, "note", reading.process, json.dumps(reading.fields)))
    return found[::-1]


def declaration(metric: Metric, instance: str) -> str:
    """Return a column's metric and instance as text, for `declared`."""
    return json.dumps([metric.name, metric.unit, metric.says, metric.kind, metric.per, instance])


def declared(text: str) -> tuple[Metric, str]:
    """Return the metric and the instance of a column. Raises ValueError where the text declares none."""
    try:
        words = json.loads(text)
    except RecursionError:
        words = None
    if not isinstance(words, list) or len(words) != 6 or not all(isinstance(word, str) for word in words):
        raise ValueError("a column declares nothing")
    name, unit, says, kind, per, instance = words
    return Metric(name, unit, says, kind, per), instance


def schema_frames() -> bytes:
    """Return the frames that begin a file of frames: the schema of every table."""
    return b"".join(frame(table | SCHEMA, schema.serialize().to_pybytes()) for table, schema in SCHEMAS.items())


def _transposed(table: FrameTable, rows: Sequence[tuple[object, ...]]) -> list[pa.Array]:
    columns = zip(*rows, strict=True)
    return [pa.array(column, field.type) for column, field in zip(columns, SCHEMAS[table], strict=True)]


def _message(table: FrameTable, arrays: list[pa.Array]) -> bytes:
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMAS[table])
    return frame(table, batch.serialize().to_pybytes())
