"""Segments: frames become Parquet, the folder stays below its size, and all parts get the same columns.

While a run goes on this is a process of its own (`main`): turning a segment around takes a tenth of a second and 20 MB,
which the recorder's beat and memory are spared.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from gputune.core.sample import Json
from gputune.recording import cells, parquet, tables
from gputune.recording.folder import RUN, Folder, frames_name, part_name
from gputune.recording.frames import whole

KEY = b"gputune"  # of Parquet's key-value metadata: the declarations of the samples' columns


class Keeper:
    """Turns the segments of one folder into Parquet. Raises OSError or Damaged; the frames are then still there.

    `started`: when the run began (µs, Unix time), for the cells of its segments; 0 for none.
    """

    def __init__(self, folder: Folder, offset: int, started: int = 0) -> None:
        self._folder = folder
        self._started = started
        self._offset = offset
        self._known: dict[str, str] = {}  # column of samples to its declaration
        for segment in folder.complete()[-1:]:  # the newest one has the columns of all before it
            self._known.update(self._declared(segment))

    def _declared(self, segment: int) -> dict[str, str]:
        return declarations(parquet.metadata(self._folder.read(part_name("samples", segment))))

    def keep(self, segment: int) -> None:
        """Write the segment's parts, verify them, then remove its frames."""
        source = tables.raw(whole(self._folder.read(frames_name(segment))))
        if source.trouble:
            raise parquet.NotReadBack(f"`{frames_name(segment)}` has frames that are none: {source.trouble}")
        self._known.update(tables.names(source))
        for name, table in tables.kept(source, self._offset, self._known).items():
            if name == "samples" or len(table):
                self._write(name, segment, table)
            else:
                self._folder.remove(part_name(name, segment))  # of an attempt that was cut short
            if name == "samples" and self._started:
                self._write("cells", segment, cells.made(table, self._known, self._started))
        self._folder.remove(frames_name(segment))

    def _write(self, name: str, segment: int, table: pa.Table) -> None:
        if name == "samples":
            table = table.replace_schema_metadata(metadata(self._known))
        self._folder.write(part_name(name, segment), parquet.encode(table))
        if not parquet.decode(self._folder.read(part_name(name, segment))).equals(table):
            raise parquet.NotReadBack(f"`{part_name(name, segment)}` did not read back as it was written")

    def unify(self) -> None:
        """Give the samples of early segments the columns that came later, so that every reader takes them as one."""
        for segment in self._folder.complete():
            if len(self._declared(segment)) < len(self._known):
                table = parquet.decode(self._folder.read(part_name("samples", segment)))
                self._write("samples", segment, tables.widened(table, self._known))

    def bound(self, max_size: int) -> list[Json]:
        """Drop the oldest segments but the first until the folder is below `max_size` bytes; say which (run.json)."""
        dropped: list[Json] = []
        parts = self._folder.parts()
        total = sum(sum(sizes.values()) for sizes in parts.values())
        for segment in list(parts)[1:-1]:
            if total <= max_size:
                break
            times = parquet.decode(self._folder.read(part_name("samples", segment)))["time"]
            for name in reversed(list(parts[segment])):
                self._folder.remove(part_name(name, segment))
            size = sum(parts[segment].values())
            total -= size
            first, last = (str(times[i].as_py()) if len(times) else "" for i in (0, -1))
            dropped.append({"segment": segment, "from": first, "to": last, "bytes": size})
        return dropped


def metadata(declared: Mapping[str, str]) -> dict[bytes, str]:
    """Return what a samples part carries of its columns: column to its declaration, for `declarations`."""
    return {KEY: json.dumps(dict(declared))}


def declarations(metadata: Mapping[bytes, bytes] | None) -> dict[str, str]:
    """Return the declarations that a samples part carries in its metadata: column to text. Raises ValueError."""
    try:
        found = json.loads((metadata or {}).get(KEY, b"{}"))
    except RecursionError:
        found = None
    if not isinstance(found, dict):
        raise ValueError("its columns are not declared")
    return {str(name): str(about) for name, about in found.items()}


def keep(folder: Folder, clocks: int, max_size: int, segments: Iterable[int], started: int = 0) -> list[Json]:
    """Make segments Parquet and keep the folder below its size; return what was dropped for that."""
    keeper = Keeper(folder, clocks, started)
    dropped: list[Json] = []
    for segment in segments:
        keeper.keep(segment)
        dropped += keeper.bound(max_size)
    return dropped


def main(arguments: Sequence[str]) -> None:
    """Do `keep` for the folder, the clocks, the size and the segments of a command line; print what was dropped."""
    os.nice(10)  # a training's process goes first
    folder, clocks, max_size, *segments = arguments
    with Folder(Path(folder)) as opened:
        began = json.loads(opened.read(RUN)).get("started") or 0
        started = (began + int(clocks)) // 1000 if began else 0
        print(json.dumps(keep(opened, int(clocks), int(max_size), map(int, segments), started)))  # noqa: T201 - read by the recorder
