"""A run folder, segment by segment, to `Series`: which segments are read for it, and what becomes of their rows."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from gputune.core.events import BatchCode
from gputune.core.sample import Json
from gputune.core.units import US
from gputune.recording import asked, cells, keeping, tables
from gputune.recording.about import offset
from gputune.recording.asked import LASTING, NAMED, ColumnQuery
from gputune.recording.curves import Count, CounterRate, CurveBuilder, Level, Sum, TimeShare, curve_of
from gputune.recording.folder import Folder
from gputune.recording.overview import ColumnEnvelope, Series
from gputune.recording.picking import RunSource, Segment
from gputune.recording.points import Grid, PointRows, PointStats, times
from gputune.recording.replaying import Lost, tried

NOWHERE = Grid(0, 1, 0)
FINEST = 100_000  # µs of a point: a tick of `--hz 10`


class TimeWindow(NamedTuple):
    """How many points, and of which time: s after the run's start, None where it begins and ends."""

    points: int
    since: float | None
    until: float | None


class OpenRun:
    """An open run folder: its segments, and when they were."""

    def __init__(self, folder: Folder, story: Mapping[str, Json], lost: Lost) -> None:
        self.clocks = offset(story)
        self.source = RunSource(folder, self.clocks, lost)
        self.segments = sorted({*folder.frames(), *folder.parts()})
        self._story = story
        self._edges: dict[int, tuple[int, int]] = {}

    def edges(self, segment: int) -> tuple[int, int]:
        """Return the first and the last moment of a segment's samples (µs, Unix time); 0 where it has none.

        One that cannot be read has the end of the one before it: they come in the order of time.
        """
        first, last = self._known(segment)
        if last:
            return first, last
        before = reversed(self.segments[: bisect_left(self.segments, segment)])
        return 0, next((end for each in before if (end := self._known(each)[1])), 0)

    def _known(self, segment: int) -> tuple[int, int]:
        if segment not in self._edges:
            at = times(Segment(self.source, segment).samples(lambda _: ["time"]))
            self._edges[segment] = (at[0].as_py(), at[-1].as_py()) if len(at) else (0, 0)
        return self._edges[segment]

    @property
    def start(self) -> int:
        """Return when it began (µs, Unix time): as it says, else with its first reading."""
        began = self._story.get("started")
        if isinstance(began, int) and began:
            return (began + self.clocks) // 1000
        return next((first for each in self.segments if (first := self.edges(each)[0])), 0)

    @property
    def end(self) -> int:
        """Return when it ended (µs, Unix time), or was last heard of."""
        ended = self._story.get("ended")
        if self._story.get("finished") and isinstance(ended, int) and ended:
            return (ended + self.clocks) // 1000
        return next((last + 1 for each in reversed(self.segments) if (last := self.edges(each)[1])), 0)

    def reached(self, grid: Grid) -> Iterator[Segment]:
        """Yield the segments that hold anything of the grid: a row lies in the segment in which it ended."""
        first, last = (
            bisect_left(self.segments, t, key=lambda each: self.edges(each)[1]) for t in (grid.start, grid.end)
        )
        for each in self.segments[first : last + 2]:
            yield Segment(self.source, each)


class SegmentRows(NamedTuple):
    """What a segment holds of what was asked for; None of a table that has nothing of it."""

    segment: str
    samples: pa.Table | None
    cells: pa.Table | None  # in their place
    records: Mapping[ColumnQuery, pa.Table | None]


class Drawing:
    """The curves of what was asked for, as far as they have come."""

    def __init__(self, names: Sequence[str], grid: Grid) -> None:
        self._names = names
        self._grid = grid
        self._ticks = PointStats(grid.count)
        self._about: tuple[bytes, dict[str, str]] = (b"", {})
        self._chosen: tuple[list[str], list[str]] = ([], [])
        self._records: dict[ColumnQuery, CurveBuilder] = {each: _curve(each, grid) for each in asked.records(names)}
        self._samples: dict[str, Level] = {}
        self._named: dict[str, str] = {}  # by its declaration a column that was asked for, "" for another

    def read(self, segment: Segment) -> SegmentRows:
        """Return what one segment holds of what was asked for."""
        found = {each: _chosen(each, segment.records(each.table, each.needs)) for each in self._records}
        coarse = segment.cells(self._grid) if self._grid.step >= cells.FEWEST * cells.CELL else None
        return SegmentRows(segment.name, segment.samples(self._choose) if coarse is None else None, coarse, found)

    def take(self, read: SegmentRows) -> None:
        """Take what one segment holds. Raises what Arrow and Python raise where that is nonsense."""
        if read.cells is not None:
            self._take_cells(read.cells)
        if read.samples is not None:
            self._take_samples(read.samples)
        for each, found in read.records.items():
            if found is not None:
                curve = self._records[each]
                curve.take(PointRows(times(found), self._grid), found[each.column or "time"].combine_chunks())

    def _take_samples(self, table: pa.Table) -> None:
        rows = PointRows(times(table), self._grid)
        self._ticks.count(rows)
        about = self._declared(table.schema.metadata or {})
        for column in table.column_names[1:]:
            if column not in self._samples:
                self._samples[column] = curve_of(about[column], self._grid)
            self._samples[column].take(rows, table[column].combine_chunks())

    def _take_cells(self, table: pa.Table) -> None:
        for about in cells.declarations(table):
            if about not in self._named:
                self._named[about] = next(iter(asked.samples(self._names, [tables.column_name(about)])), "")
        chosen = {cells.TICKS: "", **{about: name for about, name in self._named.items() if name}}
        ends: dict[str, list[tuple[int, int]]] = {}
        for us, about, low, high, total, seen in cells.rows_of(table, chosen):
            point = (us - self._grid.start) // self._grid.step
            if not seen:
                ends.setdefault(about, []).append((us, int(total)))
            elif 0 <= point < self._grid.count and about == cells.TICKS:
                self._ticks.seen[point] += seen
            elif 0 <= point < self._grid.count and low is not None and high is not None:
                self._sampled(about).tally.put(point, low, high, total, seen)
        for about, both in ends.items():
            curve = self._sampled(about)
            if isinstance(curve, CounterRate) and len(both) == 2:
                curve.reach(*both)

    def _sampled(self, about: str) -> Level:
        name = self._named[about]
        if name not in self._samples:
            self._samples[name] = curve_of(about, self._grid)
        return self._samples[name]

    def _choose(self, known: list[str]) -> list[str]:
        """Return which columns of samples to read: most segments have the same."""
        if known != self._chosen[0]:
            self._chosen = (known, ["time", *asked.samples(self._names, known)])
        return self._chosen[1]

    def _declared(self, metadata: Mapping[bytes, bytes]) -> dict[str, str]:
        text = metadata.get(keeping.KEY, b"")
        if text != self._about[0]:
            self._about = (text, keeping.declarations(metadata))
        return self._about[1]

    def lines(self) -> dict[str, ColumnEnvelope]:
        """Return what was measured of what was asked for."""
        covered = [point >= 0 for point in self._ticks.told_by(self._grid.step)]
        curves = {**self._samples, **{each.name: curve for each, curve in self._records.items()}}
        lines = ((name, curve.line(covered)) for name, curve in curves.items())
        return {name: line for name, line in lines if line is not None}


def drawn(folder: Folder, story: Mapping[str, Json], names: Sequence[str], wanted: TimeWindow, lost: Lost) -> Series:
    """Return the series of an open run folder, whose run.json is `story`. Raises Damaged where `lost` is None."""
    run = OpenRun(folder, story, lost)
    start = run.start
    end = max(start, run.end)
    first = min(end, start + round((wanted.since or 0.0) * US))
    last = max(first, end if wanted.until is None else min(end, start + round(wanted.until * US)))
    count = min(wanted.points, -(-(last - first) // FINEST))
    grid = _grid(first, last, count, whole=first == start)
    drawing = Drawing(names, grid)
    for read in _ahead(drawing, run.reached(grid), lost) if count else ():
        tried(lost, read.segment, partial(drawing.take, read), None)
    return Series(
        since=(first - start) / US,
        until=(last - start) / US,
        step=grid.step / US,
        times=tuple((first - start + k * grid.step) / US for k in range(grid.count)),
        columns=drawing.lines(),
    )


def _grid(first: int, last: int, count: int, *, whole: bool) -> Grid:
    """Return a grid of at most so many points; long ones are made of whole cells, where these begin with the first."""
    step = -(-(last - first) // count) if count else FINEST
    if whole and step >= cells.FEWEST * cells.CELL:
        step = -(-step // cells.CELL) * cells.CELL
        count = -(-(last - first) // step)
    return Grid(first, step, count)


def _ahead(drawing: Drawing, segments: Iterator[Segment], lost: Lost) -> Iterator[SegmentRows]:
    """Yield the segments as they are read, by a thread of its own: one is read while the one before it is counted."""
    with ThreadPoolExecutor(1) as pool:
        before: Future[SegmentRows | None] | None = None
        for segment in segments:
            begun = pool.submit(tried, lost, segment.name, partial(drawing.read, segment), None)
            if before is not None and (read := before.result()) is not None:
                yield read
            before = begun
        if before is not None and (read := before.result()) is not None:
            yield read


def declared_in(folder: Folder) -> dict[str, str]:
    """Return the columns of samples of the newest segments, and their units."""
    source = RunSource(folder, 0, {})
    found: dict[str, str] = {}
    for each in sorted({*folder.complete()[-1:], *folder.frames()}):
        table = Segment(source, each).samples(lambda _: ["time"])
        about: dict[str, str] = tried({}, "", partial(keeping.declarations, table.schema.metadata), {})
        found.update({column: curve_of(text, NOWHERE).unit for column, text in about.items()})
    return found


def _curve(each: ColumnQuery, grid: Grid) -> CurveBuilder:
    if not each.rate:
        return Level(each.unit, grid)
    if not each.column:
        return Count(each.unit, grid)
    return (TimeShare if each.column in LASTING else Sum)(each.unit, grid)


def _chosen(each: ColumnQuery, table: pa.Table) -> pa.Table | None:
    """Return the rows that count; None where the table has none, or lacks the column."""
    unfit = BatchCode.END | BatchCode.UNTIMED | BatchCode.APART if each.column == "wait" else BatchCode.END
    if each.table == "batches" and (pc.max(table["code"]).as_py() or 0):
        table = table.filter(pc.equal(pc.bit_wise_and(table["code"], pa.scalar(unfit, pa.int16())), 0))
    if each.only and len(table):
        by = NAMED.get(each.table, "process")
        table = table.filter(pc.equal(table[by].cast(pa.string()), each.only))
    return table if len(table) and (each.column or "time") in table.column_names else None
