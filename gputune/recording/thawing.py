"""The process that makes a segment of Parquet frames again, for somebody who was away while it was turned."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from gputune.recording import parquet, tables
from gputune.recording.about import offset, read
from gputune.recording.encoding import SCHEMAS, schema_frames
from gputune.recording.folder import Folder, part_name
from gputune.recording.frames import FrameTable, frame
from gputune.recording.keeping import declarations
from gputune.recording.lean import lean
from gputune.recording.replaying import numbers
from gputune.recording.rows import Heads, Rows, packed

ROWS_A_TIME = 1024  # whose values are Python objects at once


def thawed(data: bytes, clocks: int) -> Iterator[bytes]:
    """Yield the frames of a samples part: its rows in their order, times in ns of the monotonic clock."""
    table = parquet.decode(data)
    about = declarations(table.schema.metadata)
    names = table.column_names[1:]
    yield schema_frames()
    columns = [pa.array(range(len(names)), pa.uint16()), pa.array([about[name] for name in names], pa.string())]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMAS[FrameTable.COLUMNS])
    yield frame(FrameTable.COLUMNS, batch.serialize().to_pybytes())
    heads = Heads()
    times = numbers(tables.monotonic(table["time"], clocks))
    for start in range(0, len(table), ROWS_A_TIME):
        values = [column.slice(start, ROWS_A_TIME).to_pylist() for column in table.columns[1:]]
        rows = Rows()
        for place, t in enumerate(times[start : start + ROWS_A_TIME]):
            found = [(id_, column[place]) for id_, column in enumerate(values) if column[place] is not None]
            ids = b"".join(id_.to_bytes(2, sys.byteorder) for id_, _ in found)
            rows.add(t, ids, packed([value for _, value in found]))
            if len(rows.times) == 64:  # at once, so that a reader need not take more than it wants
                yield frame(FrameTable.SAMPLES, heads.message(rows))
                rows = Rows()
        if rows.times:
            yield frame(FrameTable.SAMPLES, heads.message(rows))


def main(arguments: Sequence[str]) -> None:
    """Write the frames of a folder's segment to stdout."""
    lean()
    folder, segment = arguments
    clocks = offset(read(Path(folder)))
    with Folder(Path(folder)) as opened:
        data = opened.read(part_name("samples", int(segment)))
    for part in thawed(data, clocks):
        sys.stdout.buffer.write(part)
