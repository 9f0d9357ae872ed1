"""A recording's samples read on from where somebody stopped: row by row, while it grows, after its end, after a gap.

A cursor says how many rows of which segment are known. Rows are counted alike in frames and in Parquet, so it means the
same before and after a segment was turned. A segment of frames that is being followed stays open: once it is Parquet
and its file removed, the descriptor still gives what it held. Others are thawed, that is made frames again, by a
process of its own (`gputune/recording/thawing.py`) whose memory is given back.
"""

import os
import subprocess
import tempfile
import threading
from array import array
from bisect import bisect_right
from collections.abc import Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from gputune.core.isolation import own_python
from gputune.recording import tables
from gputune.recording.about import Damaged, offset, read
from gputune.recording.encoding import declared
from gputune.recording.folder import Folder, frames_name, part_name
from gputune.recording.frames import HEADER, FrameTable, RecordedFrame, whole
from gputune.recording.rows import ROWS

MOST = 1 << 20  # B of frames that one reading looks at: some 15 minutes of 40 columns once a second
LARGEST = 16 << 20  # B; no frame is larger: a segment ends at half of it
THAW = "from gputune.recording.thawing import main; main(sys.argv[1:])"
SHORT = 0.5  # s that one call waits for it: who asks over a link must be able to tell a dead one from a slow answer


class Cursor(NamedTuple):
    """How far somebody has read: `row` rows of `segment`, and `known` of its columns as `form` declares them.

    Segments are numbered from 1; 0 is before the first one, and -1 just before the newest.
    """

    segment: int = 0
    row: int = 0
    known: int = 0
    form: str = ""


class PulledPart(NamedTuple):
    """What came after a cursor.

    `batch` has the columns t (ns, monotonic), column (ids) and value; `columns` are the declarations that the reader
    does not know yet, after it has forgotten all others where `anew` is true. `more`: there is more to be had at once.
    `missed`: something in between was dropped to keep the folder below its size.
    """

    batch: pa.RecordBatch
    columns: Sequence[tuple[int, str]]
    anew: bool
    next: Cursor
    more: bool
    missed: bool


class Frames:
    """One segment as frames in an open file, with an index of its rows. Not for two threads at once."""

    def __init__(self, descriptor: int, form: str) -> None:
        self.form = form
        self.rows = 0
        self.columns: list[tuple[int, str]] = []
        self._fd = descriptor
        self._end = 0  # of the last whole frame
        self._ids: set[int] = set()
        self._firsts, self._starts = array("q"), array("q")  # of each frame of samples: its first row, its place

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def grow(self) -> None:
        """Learn what was written since the last call."""
        size = MOST
        while data := os.pread(self._fd, size, self._end):
            end = 0
            for frame in whole(data):
                self._learn(frame)
                end = frame.end
            if not end and (len(data) < size or size >= LARGEST):
                return  # a frame that is not whole yet
            size = MOST if end else 2 * size
            self._end += end

    def _learn(self, frame: RecordedFrame) -> None:
        if frame.table == FrameTable.COLUMNS:
            said = _batch(frame, _COLUMNS)
            for id_, about in zip(said["id"].to_pylist(), said["about"].to_pylist(), strict=True):
                if id_ not in self._ids:
                    self._ids.add(id_)
                    self.columns.append((id_, about))
        elif frame.table == FrameTable.SAMPLES:
            self._firsts.append(self.rows)
            self._starts.append(self._end + frame.end - HEADER - len(frame.payload))
            self.rows += _batch(frame, ROWS).num_rows

    def read(self, row: int, most: int) -> pa.RecordBatch:
        """Return rows from `row` on, as many as `most` bytes of frames hold, at least those of one frame."""
        if row >= self.rows:
            return _EMPTY
        index = bisect_right(self._firsts, row) - 1
        start = self._starts[index]
        found: list[pa.RecordBatch] = []
        while not found and most <= 2 * LARGEST:
            data = os.pread(self._fd, min(most, self._end - start), start)
            found = [_batch(frame, ROWS) for frame in whole(data) if frame.table == FrameTable.SAMPLES]
            most *= 2
        if not found:
            raise Damaged("frames", "a frame that was there cannot be read any more")
        together = pa.Table.from_batches(found).combine_chunks().to_batches()[0]
        return together.slice(row - self._firsts[index])


class Thaw:
    """A process that makes a segment of Parquet frames again, in a file without a name."""

    def __init__(self, path: Path, segment: int) -> None:
        self._segment = segment
        self._file = tempfile.TemporaryFile(prefix="gputune-")  # noqa: SIM115 - open for as long as the process writes
        self._process = subprocess.Popen(
            [*own_python(THAW), str(path), str(segment)],
            stdin=subprocess.DEVNULL,
            stdout=self._file,
            stderr=subprocess.DEVNULL,
        )

    def wait(self, longest: float) -> int | None:
        """Return a descriptor of the frames, None where they are not whole after so many seconds. Raises Damaged."""
        try:
            status = self._process.wait(longest)
        except subprocess.TimeoutExpired:
            return None
        descriptor = os.dup(self._file.fileno())
        self._file.close()
        if status:
            os.close(descriptor)
            raise Damaged(part_name("samples", self._segment), "it cannot be made frames again")
        return descriptor

    def close(self) -> None:
        """Give up."""
        self._process.kill()
        self._process.wait()
        self._file.close()


class Pullable:
    """One run folder, to be pulled by any number of readers, each from its own cursor. Several threads may use it.

    `clocks` is ns from the clock of its rows to Unix time. Raises NotARun or NewerRun, and OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clocks = offset(read(path))
        self._folder = Folder(path)
        self._lock = threading.Lock()
        self._closed = False
        self._held: dict[int, Frames] = {}  # least recently used first
        self._thawing: dict[int, Thaw] = {}

    def close(self) -> None:
        """Let go of all files."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for frames in self._held.values():
                    frames.close()
                self._held.clear()
                for thaw in self._thawing.values():
                    thaw.close()
                self._thawing.clear()
                self._folder.close()

    def since(self, at: Cursor, *, most: int = MOST, only: Set[str] = frozenset()) -> PulledPart:
        """Return what comes after `at`; of the metrics named in `only`, of all where it names none.

        Raises Damaged for a segment that cannot be read, OSError where the folder cannot.
        """
        with self._lock:
            if self._closed:  # by another thread, since this one got hold of it
                raise FileNotFoundError(str(self.path))
            there = self._there()
            if at.segment < 0 and there:
                at = Cursor(max(there))
            segment = at.segment if at.segment in there else min((s for s in there if s > at.segment), default=0)
            if not segment:
                return PulledPart(_EMPTY, (), anew=False, next=at, more=False, missed=False)
            missed = segment != at.segment and at.segment > 0
            if segment != at.segment:
                at = Cursor(segment)
            source = self._source(segment)
            if source is None:
                return PulledPart(_EMPTY, (), anew=False, next=at, more=True, missed=missed)
            source.grow()
            piece = _piece(source, at, most, only)
            later = min((s for s in there if s > segment), default=0)
            if not piece.more and later:  # it has ended: nothing will be added to it
                piece = piece._replace(next=Cursor(later), more=True)
            return piece._replace(missed=missed)

    def _there(self) -> set[int]:
        """Return the segments that can be read; the one that grows is opened, before it can vanish."""
        frames = self._folder.frames()
        if frames and frames[-1] not in self._held:
            with suppress(FileNotFoundError):
                self._hold(frames[-1], Frames(self._folder.open(frames_name(frames[-1])), "frames"))
        return {*frames, *self._folder.segments(), *self._held}

    def _hold(self, segment: int, frames: Frames) -> None:
        self._held[segment] = frames
        # 3 segments that stay open: the one that grows, the one before, and one that somebody catches up with
        while len(self._held) > 3:
            self._held.pop(next(iter(self._held))).close()

    def _source(self, segment: int) -> Frames | None:
        """Return a segment's frames, None while they are being made."""
        frames = self._held.pop(segment, None)
        if frames is None:
            try:
                frames = Frames(self._folder.open(frames_name(segment)), "frames")
            except FileNotFoundError:  # it is Parquet, perhaps since a moment ago
                frames = self._thawed(segment)
        if frames is not None:
            self._hold(segment, frames)
        return frames

    def _thawed(self, segment: int) -> Frames | None:
        thaw = self._thawing.pop(segment, None) or Thaw(self.path, segment)
        descriptor = thaw.wait(SHORT)
        if descriptor is not None:
            return Frames(descriptor, "thawed")
        self._thawing[segment] = thaw
        while len(self._thawing) > 8:  # segments at once; who asked for the oldest has it begun anew
            self._thawing.pop(next(iter(self._thawing))).close()
        return None


def _piece(source: Frames, at: Cursor, most: int, only: Set[str]) -> PulledPart:
    row = min(at.row, source.rows)
    anew = at.form != source.form or at.known > len(source.columns) or not at.known
    columns = source.columns if anew else source.columns[at.known :]
    batch = source.read(row, most)
    if only:
        wanted = frozenset(id_ for id_, about in source.columns if declared(about)[0].name in only)
        columns = [(id_, about) for id_, about in columns if id_ in wanted]
        batch = _only(batch, wanted)
    following = Cursor(at.segment, row + batch.num_rows, len(source.columns), source.form)
    return PulledPart(batch, columns, anew, following, more=following.row < source.rows, missed=False)


def _only(batch: pa.RecordBatch, wanted: Set[int]) -> pa.RecordBatch:
    """Return the rows with the wanted columns alone. A row that loses all of them stays: rows are what is counted."""
    kept = [
        [(id_, value) for id_, value in zip(ids, values, strict=True) if id_ in wanted]
        for ids, values in zip(batch["column"].to_pylist(), batch["value"].to_pylist(), strict=True)
    ]
    ids = pa.array([[id_ for id_, _ in row] for row in kept], ROWS.field("column").type)
    values = pa.array([[value for _, value in row] for row in kept], ROWS.field("value").type)
    return pa.RecordBatch.from_arrays([batch["t"], ids, values], schema=ROWS)


def _batch(frame: RecordedFrame, schema: pa.Schema) -> pa.RecordBatch:
    try:
        return tables.checked(frame.payload, schema)
    except Exception as error:  # noqa: BLE001 - a frame may be anybody's, and pyarrow's words for it are many
        raise Damaged("frames", str(error).partition("\n")[0]) from None


_COLUMNS = pa.schema([("id", pa.uint16()), ("about", pa.string())])
_EMPTY = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in ROWS], schema=ROWS)
