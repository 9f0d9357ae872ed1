"""Segments: frames become Parquet, the folder stays below its size, and all parts get the same columns."""

import json

import pyarrow as pa

from gputune.recording import parquet, tables
from gputune.recording.folder import Folder, frames_name, part_name
from gputune.recording.frames import whole
from gputune.sample import Json

KEY = b"gputune"  # of Parquet's key-value metadata: the declarations of the samples' columns


class Keeper:
    """Turns the segments of one folder into Parquet. Raises OSError or Damaged; the frames are then still there."""

    def __init__(self, folder: Folder, offset: int) -> None:
        self._folder = folder
        self._offset = offset
        self._known: dict[str, str] = {}  # column of samples to its declaration
        self._columns: dict[int, int] = {}  # segment to how many columns its samples have
        for segment in folder.complete():
            self._learn(segment)

    def _learn(self, segment: int) -> None:
        columns = declarations(parquet.decode(self._folder.read(part_name("samples", segment))))
        self._known.update(columns)
        self._columns[segment] = len(columns)

    def keep(self, segment: int) -> None:
        """Write the segment's parts, verify them, then remove its frames."""
        source = tables.raw(whole(self._folder.read(frames_name(segment))))
        self._known.update(tables.names(source))
        for name, table in tables.kept(source, self._offset, self._known).items():
            if name == "samples" or len(table):
                self._write(name, segment, table)
            else:
                self._folder.remove(part_name(name, segment))  # of an attempt that was cut short
        self._columns[segment] = len(self._known)
        self._folder.remove(frames_name(segment))

    def _write(self, name: str, segment: int, table: pa.Table) -> None:
        if name == "samples":
            table = table.replace_schema_metadata({KEY: json.dumps(self._known)})
        self._folder.write(part_name(name, segment), parquet.encode(table))
        if not parquet.decode(self._folder.read(part_name(name, segment))).equals(table):
            raise parquet.Damaged(f"`{part_name(name, segment)}` did not read back as it was written")

    def unify(self) -> None:
        """Give the samples of early segments the columns that came later, so that every reader takes them as one."""
        for segment, columns in self._columns.items():
            if columns < len(self._known):
                table = parquet.decode(self._folder.read(part_name("samples", segment)))
                self._write("samples", segment, tables.widened(table, self._known))
                self._columns[segment] = len(self._known)

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
            self._columns.pop(segment, None)
            first, last = (str(times[i].as_py()) if len(times) else "" for i in (0, -1))
            dropped.append({"segment": segment, "from": first, "to": last, "bytes": size})
        return dropped


def declarations(samples: pa.Table) -> dict[str, str]:
    """Return the declarations that a samples table carries: column to text."""
    found = json.loads((samples.schema.metadata or {}).get(KEY, b"{}"))
    return {str(name): str(about) for name, about in found.items()}
