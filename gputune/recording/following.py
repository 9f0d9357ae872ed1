"""A run folder while it grows: each look takes only what was added since the last one.

Of frames nothing is read twice. Where a segment became Parquet between two looks, what was not seen of it is taken from
there, by the time of its ticks. Between two looks nothing is held: who shows a run must not keep its folder open.
"""

import errno
import math
from collections.abc import Iterator
from pathlib import Path

from gputune.core.sample import Metric, Reading, Sample
from gputune.recording import parquet, records, tables
from gputune.recording.encoding import declared
from gputune.recording.folder import Folder, frames_name
from gputune.recording.frames import FrameTable, whole
from gputune.recording.replaying import lose, marks, merged, numbers, read_segment, replayed

US = 1000  # ns: what became Parquet has whole µs


class Follower:
    """Reads one run folder from its start to its present end, and then on. `offset`: as in run.json, ns.

    A look takes a segment at the most, so that what is read of a long run comes in pieces; `behind` says whether there
    is more. Raises OSError where the folder is gone (or another one has its name), Damaged where it cannot be read.
    """

    def __init__(self, folder: Path, offset: int) -> None:
        self.behind = True
        with Folder(folder) as opened:
            self._place = opened.place
        self._path = folder
        self._offset = offset
        self._segment = 0
        self._at = 0  # bytes of its frames that were read; -1: all of it was, as Parquet
        self._raw: tables.Raw | None = None  # what its frames have declared so far
        self._seen = 0  # ns, the last tick
        self._bound = parquet.Bound()
        self.lost: dict[str, str] = {}  # files that could not be read, and why: the rest is read without them

    def look(self) -> list[list[Reading]]:
        """Return the ticks that were added, in their order."""
        with Folder(self._path) as folder:
            if folder.place != self._place:
                raise FileNotFoundError(errno.ENOENT, "another folder has its name", str(self._path))
            return self._look(folder)

    def _look(self, folder: Folder) -> list[list[Reading]]:
        frames = folder.frames()
        later = [n for n in sorted({*frames, *folder.parts()}) if n > self._segment]
        ticks: list[list[Reading]] = []
        if self._segment:
            ticks = self._rest(folder) if self._segment in frames else self._turned(folder)
        if not ticks and later:
            self._segment, self._at, self._raw = later.pop(0), 0, None
            ticks = self._rest(folder) if self._segment in frames else self._all_of_it(folder)
        self.behind = bool(later)
        for tick in ticks:
            self._seen = max(self._seen, _last(tick))
        return ticks

    def _rest(self, folder: Folder) -> list[list[Reading]]:
        """Return what the frames have more than at the last look."""
        try:
            data = folder.read(frames_name(self._segment), self._at)
        except FileNotFoundError:
            return self._turned(folder)
        found = list(whole(data))
        if not found:
            return []
        self._at += found[-1].end
        self._raw = tables.raw(found, self._raw)
        if self._raw.trouble:
            lose(self.lost, frames_name(self._segment), self._raw.trouble)
        return list(_ticks(self._raw, self.lost))

    def _turned(self, folder: Folder) -> list[list[Reading]]:
        """Return what a segment that is Parquet by now has more than was seen of its frames."""
        if self._at < 0:
            return []
        return [tick for tick in self._all_of_it(folder) if _last(tick) > self._seen + US]

    def _all_of_it(self, folder: Folder) -> list[list[Reading]]:
        """Return the whole segment, of which nothing can come later."""
        self._at = -1
        return list(replayed(read_segment(folder, self._segment, self._bound, self.lost), self._offset, self.lost))


def _ticks(source: tables.Raw, lost: dict[str, str]) -> Iterator[list[Reading]]:
    """Yield the ticks of some frames: as `replayed`, for a few rows of many columns."""
    events = records.in_order(records.from_frames(source.table(FrameTable.EVENTS)))
    said = sorted(
        marks(source.table(FrameTable.NOTES), source.table(FrameTable.STACKS), lost), key=lambda mark: mark[:2]
    )
    return merged(_samples(source), events, said)


def _samples(source: tables.Raw) -> Iterator[list[Sample]]:
    rows = source.table(FrameTable.SAMPLES)
    known: dict[int, tuple[Metric, str]] = {}
    columns = zip(numbers(rows["t"]), rows["column"].to_pylist(), rows["value"].to_pylist(), strict=True)
    for t, ids, values in columns:
        tick = []
        for column, value in zip(ids, values, strict=True):
            if column not in source.columns or not math.isfinite(value):
                continue
            if column not in known:
                known[column] = declared(source.columns[column])
            metric, instance = known[column]
            tick.append(Sample(metric, t, value, instance))
        if tick:
            yield tick


def _last(tick: list[Reading]) -> int:
    """Return the time of a tick's samples, 0 where it has none: what came after the last of them."""
    return max((reading.t for reading in tick if isinstance(reading, Sample)), default=0)
