"""What a run's samples were at its end: the last of them alone are read, however long it was."""

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from gputune.core.sample import Sample
from gputune.recording.about import offset, read
from gputune.recording.folder import Folder
from gputune.recording.keeping import declarations
from gputune.recording.picking import RunSource, Segment
from gputune.recording.replaying import Lost, rows_of, ticks_of, tried


def tail(folder: Path, seconds: int, lost: Lost = None) -> list[list[Sample]]:
    """Return the samples of the last seconds in which there were any, tick by tick. Raises as `readings` does."""
    clocks = offset(read(folder))
    with Folder(folder) as opened:
        found: list[list[Sample]] = []
        until: pa.Scalar | None = None
        for number in sorted({*opened.frames(), *opened.parts()}, reverse=True):
            segment = Segment(RunSource(opened, clocks, lost), number)
            table = segment.samples(list)
            if not len(table):
                continue
            until = until or pc.subtract(table["time"][-1], pa.scalar(seconds * 1_000_000, pa.duration("us")))
            recent = table.filter(pc.greater(table["time"], until))
            none: list[list[Sample]] = []
            found = [*tried(lost, segment.name, partial(_ticks, recent, clocks), none), *found]
            if len(recent) < len(table):
                break
        return found


def _ticks(table: pa.Table, clocks: int) -> list[list[Sample]]:
    return list(ticks_of(*rows_of(table, declarations(table.schema.metadata), clocks)))
