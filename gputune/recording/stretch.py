"""A recording table by table, of a stretch of time or of all of it: for whoever keeps it in another form.

A segment is in memory at a time, and of it only the tables that are asked for. Times are µs of Unix time. A file that
cannot be read is left out and put down in `lost`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gputune.core.sample import Metric
from gputune.core.units import US
from gputune.recording import parquet, tables
from gputune.recording.about import read
from gputune.recording.asked import LASTS
from gputune.recording.drawing import OpenRun
from gputune.recording.encoding import declared
from gputune.recording.folder import Folder, frames_name, part_name
from gputune.recording.keeping import declarations
from gputune.recording.replaying import Segment, read_segment, tried

Row: TypeAlias = dict[str, Any]  # a row of any table, by its columns


class Stretch(NamedTuple):
    """From when and until when, µs of Unix time."""

    since: int
    until: int


class Piece(NamedTuple):
    """What a segment holds: tables by name, and what the columns of its samples are."""

    tables: Mapping[str, "pa.Table"]
    metrics: Mapping[str, Metric]


def lasted(folder: Path, lost: dict[str, str]) -> Stretch:
    """Return from when to when a run goes, so far. Raises NotARun and NewerRun."""
    story = read(folder)
    with Folder(folder) as opened:
        run = OpenRun(opened, story, lost)
        return Stretch(run.start, max(run.start, run.end))


def pieces(folder: Path, only: Collection[str], stretch: Stretch, lost: dict[str, str]) -> Iterator[Piece]:
    """Yield the segments that hold anything of a stretch, in their order. Raises NotARun and NewerRun."""
    story = read(folder)
    with Folder(folder) as opened:
        run = OpenRun(opened, story, lost)
        bound = parquet.Bound()
        for number in run.segments:
            first, last = run.edges(number)
            if not 0 < last < stretch.since:
                yield _piece(read_segment(opened, number, bound, lost, only), number, run.clocks, only, lost)
            if first > stretch.until:  # a row lies where it ended
                return


def _piece(segment: Segment, number: int, clocks: int, only: Collection[str], lost: dict[str, str]) -> Piece:
    metrics: dict[str, Metric] = {}
    if isinstance(segment, tables.Raw):
        nothing: dict[str, pa.Table] = {}
        kept = tried(lost, frames_name(number), partial(tables.kept, segment, clocks), nothing)
        found = {name: table for name, table in kept.items() if name in only}
        return Piece(found, _metrics(dict(tables.names(segment))))
    said = segment.tables["samples"].schema.metadata if "samples" in segment.tables else None
    metrics = tried(lost, part_name("samples", number), lambda: _metrics(declarations(said)), metrics)
    return Piece(segment.tables, metrics)


def _metrics(said: Mapping[str, str]) -> dict[str, Metric]:
    return {name: declared(about)[0] for name, about in said.items()}


def within(piece: Piece, stretch: Stretch, kinds: Collection[int] | None = None) -> dict[str, list[Row]]:
    """Return the rows of a segment that lie at least partly in a stretch; `t` of each is its time.

    `kinds`: of `events` only those.
    """
    found = {}
    for name, table in piece.tables.items():
        chosen = among(table, name, stretch)
        if name == "events" and kinds is not None:
            chosen = chosen.filter(pc.is_in(chosen["kind"], value_set=pa.array(list(kinds), pa.int32())))
        found[name] = _plain(chosen)
    return found


def _plain(table: pa.Table) -> list[Row]:
    kept = [name for name in table.column_names if name not in {"time", "us"}]
    return list(table.select(kept).append_column("t", moments(table)).to_pylist())


def among(table: pa.Table, name: str, stretch: Stretch) -> pa.Table:
    """Return the rows of a table of this name that lie at least partly in a stretch."""
    t = moments(table)
    return table.filter(pc.and_(pc.less(t, stretch.until), pc.greater_equal(_ends(table, name), stretch.since)))


def _ends(table: pa.Table, name: str) -> pa.ChunkedArray:
    t = moments(table)
    if name not in LASTS:
        return t
    return pc.add(t, pc.multiply(table[LASTS[name]].fill_null(0.0), float(US)).cast(pa.int64(), safe=False))


def moments(table: pa.Table) -> pa.ChunkedArray:
    """Return the times of the rows of a table of any kind, µs."""
    stamp = table["time"].cast(tables.US).cast(pa.int64())
    return pc.add(stamp, table["us"].cast(pa.int64())) if "us" in table.column_names else stamp


def made_before(folder: Path, since: Mapping[int, int], until: int, lost: dict[str, str]) -> Counter[int]:
    """Return how many batches processes had made before `until`, of those begun from `since[process]` on."""
    found: Counter[int] = Counter()
    if not since:
        return found
    for piece in pieces(folder, ("fetches",), Stretch(min(since.values()), until), lost):
        table = piece.tables.get("fetches")
        if table is None or not len(table):
            continue
        place = pc.index_in(table["process"], value_set=pa.array(list(since), pa.int32()))
        begins = pa.array(list(since.values()), pa.int64()).take(place)
        counts = pc.and_(pc.greater_equal(moments(table), begins), pc.less(_ends(table, "fetches"), until))
        mine = table.filter(counts)  # null, of processes that are not asked about, is no
        for each in pc.value_counts(mine["process"]).to_pylist():
            found[each["values"]] += each["counts"]
    return found
