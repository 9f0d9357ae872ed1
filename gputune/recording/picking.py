"""Of one segment, as Parquet or still as frames, the columns that were asked for, and nothing else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TypeVar

import pyarrow as pa

from gputune.recording import cells, keeping, parquet, records, tables
from gputune.recording.folder import Folder, frames_name, part_name
from gputune.recording.frames import FrameTable
from gputune.recording.points import Grid
from gputune.recording.replaying import Lost, frames, lose, tried

NOTHING = pa.schema([("time", tables.US)]).empty_table()
Pick = Callable[[list[str]], list[str]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunSource:
    """An open run folder. `clocks`: ns from the monotonic clock to Unix time."""

    folder: Folder
    clocks: int
    lost: Lost


class Segment:
    """One segment of a run folder. Nothing of it is read before it is asked for."""

    def __init__(self, source: RunSource, number: int) -> None:
        self._source = source
        self._number = number
        self.name = f"segment {number}"

    def samples(self, pick: Pick) -> pa.Table:
        """Return the columns of its samples that `pick` chooses of their names; what they declare is metadata."""
        raw = self._raw
        if raw is None:
            return self._part("samples", pick)
        names = {about: tables.column_name(about) for about in raw.columns.values()}
        chosen = set(pick(["time", *names.values()]))
        some = replace(raw, columns={k: about for k, about in raw.columns.items() if names[about] in chosen})
        table = self._tried("", partial(tables.samples, some, self._source.clocks, {}), NOTHING)
        return table.replace_schema_metadata(keeping.metadata({name: about for about, name in names.items()}))

    def cells(self, grid: Grid) -> pa.Table | None:
        """Return what its samples come to in cells of which the points of `grid` are made; None where there are none.

        Then its samples are there all the same.
        """
        file = part_name("cells", self._number)
        if self._raw is not None or (data := self._content(file)) is None:
            return None
        return tried(self._source.lost, file, partial(_cells, data, grid), None)

    def records(self, table: str, columns: Sequence[str]) -> pa.Table:
        """Return columns of one of its tables of records. Of an older gputune some may lack."""
        if self._raw is None:
            return self._part(table, lambda known: [name for name in columns if name in known])
        return self._split[table].select(columns)

    @cached_property
    def _raw(self) -> tables.Raw | None:
        return frames(self._source.folder, self._number, self._source.lost)

    @cached_property
    def _split(self) -> Mapping[str, pa.Table]:
        events = (self._raw or tables.Raw()).table(FrameTable.EVENTS)
        none = {name: shape.empty_table() for name, shape in records.SHAPES.items()}
        return self._tried("", lambda: records.split(records.from_frames(events), 1, self._source.clocks), none)

    def _part(self, table: str, pick: Pick) -> pa.Table:
        file = part_name(table, self._number)
        none = tables.SHAPES.get(table, NOTHING.schema).empty_table()
        data = self._content(file)
        return none if data is None else self._tried(table, partial(_decoded, table, data, pick), none)

    def _content(self, file: str) -> bytes | None:
        try:
            return self._source.folder.read(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            lose(self._source.lost, file, error.strerror or error)
            return None

    def _tried(self, table: str, make: Callable[[], T], otherwise: T) -> T:
        file = part_name(table, self._number) if table else frames_name(self._number)
        return tried(self._source.lost, file, make, otherwise)


def _cells(data: bytes, grid: Grid) -> pa.Table | None:
    table = parquet.decode(data)
    return table if cells.fit(table, grid) else None


def _decoded(name: str, data: bytes, pick: Pick) -> pa.Table:
    table = parquet.decode(data, pick)
    tables.check(name, table, whole=False)
    return table
