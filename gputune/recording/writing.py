"""The recorder's side of a run folder: cheap on every tick, one `write()` a second, never an exception."""

import importlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gputune import __version__
from gputune.core.sample import Json, Reading, now
from gputune.core.units import NS
from gputune.recording.about import SCHEMA_VERSION, offset, read, sealed
from gputune.recording.folder import RUN, Folder, frames_name, write_all
from gputune.recording.frames import whole
from gputune.recording.gap import LOST, Gap, missed
from gputune.recording.lean import keeping
from gputune.recording.owed import Owed
from gputune.recording.turning import Turning

if TYPE_CHECKING:  # they import pyarrow, which a run that has written nothing yet does not need
    from gputune.recording.encoding import Encoder
    from gputune.recording.story import Story

MAX_SIZE = 512 << 20  # B: weeks of 40 columns and 20 batches a second
SEGMENT = 8 << 20  # B of frames, half an hour of 40 columns: what is read into memory at once, beside the recorder
LEAST_SEGMENT = 256 << 10  # B: smaller ones would be mostly Parquet's own words
BEAT = int(0.9 * NS)  # a beat that comes a little early is one all the same
FIRST = 1  # segment
ABOUT = 10 * NS  # run.json is rewritten at most that often for what readings tell
MS = 1_000_000


class Recording:
    """A run folder that is being written. Made by `create` or `resume`; no method raises.

    While writing fails, `broken` says why, nothing is taken, and it is tried again, after a second and then ever more
    rarely, up to once a minute: a disk that was full for an hour costs that hour. What was missed is in `missed`, and
    in run.json; what is on the disk stays readable. Where there is no folder to write into it stays broken.
    """

    def __init__(self, about: dict[str, Json], max_size: int) -> None:
        self.broken = ""
        self._gap, self._owed = Gap(), Owed()
        self._folder: Folder | None = None
        self._path = Path()
        self._about = about
        self._bound_to(max_size)
        self._taken: list[tuple[int, Sequence[Reading]]] = []
        self._segment = FIRST
        self._file = -1
        self._size = 0
        self._encoder: Encoder | None = None
        self._turning: Turning | None = None
        self._due = False  # segments have ended that nobody was asked to turn
        self._story: Story | None = None
        self._beaten = self._told = now()

    @classmethod
    def create(cls, folder: Path, about: Mapping[str, Json], *, max_size: int = MAX_SIZE) -> "Recording":
        """Begin a recording in `folder`, made (0700) if need be; `about` is what run.json says from the start."""
        clocks = (time.time_ns() - now()) // MS * MS  # whole milliseconds keep the grid aligned in both
        anchor: dict[str, Json] = {"finished": False, "unix_minus_monotonic_ns": clocks, "dropped": []}
        first: dict[str, Json] = {"schema_version": SCHEMA_VERSION, "gputune": __version__, "max_size": max_size}
        self = cls({**first, **anchor, **about}, max_size)
        self._guarded(lambda: self._begin(folder))
        return self

    @classmethod
    def resume(cls, folder: Path) -> "Recording":
        """Go on with the recording of a recorder that was killed."""
        self = cls({}, MAX_SIZE)
        self._guarded(lambda: self._go_on(folder))
        return self

    def _begin(self, folder: Path) -> None:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        opened = Folder(folder)
        if RUN in opened.names():
            opened.close()
            raise FileExistsError(f"`{folder}` is another run")
        self._folder, self._path = opened, folder.absolute()
        self._tell()
        with suppress(OSError):
            opened.reserve()

    def _bound_to(self, max_size: int) -> None:
        self._max_size = max_size
        self._segment_size = min(SEGMENT, max(LEAST_SEGMENT, max_size // 8))

    def _go_on(self, folder: Path) -> None:
        self._about.update(read(folder))
        self._bound_to(int(str(self._about["max_size"])))
        self._folder = Folder(folder)
        self._path = folder.absolute()
        left = self._folder.frames()
        self._segment = 1 + max([*left, *self._folder.parts()], default=FIRST)
        for segment in left[-1:]:
            torn = self._folder.read(frames_name(segment))
            self._folder.cut(frames_name(segment), max((frame.end for frame in whole(torn)), default=0))

    def take(self, readings: Sequence[Reading]) -> None:
        """Take the readings of one tick. They are on the disk after the next beat."""
        if not readings or self._folder is None:
            return
        if self.broken:
            self._owed.take(readings)
        else:
            self._taken.append((now(), readings))

    def beat(self, now_ns: int) -> None:
        """Write what was taken, once a second (`now_ns`: the monotonic clock); more frequent calls do nothing."""
        if now_ns - self._beaten < BEAT:
            return
        if self.broken:
            self._try_again(now_ns)
        else:
            self._beaten = now_ns
            self._guarded(self._write)
            if self._size >= self._segment_size:
                self._guarded(self._roll)
            elif self._turning is not None:
                self._guarded(self._turned)
            if self._story is not None and self._story.changed and now_ns - self._told >= ABOUT:
                self._told = now_ns
                self._guarded(self._tell)

    def about(self, **changes: Json) -> None:
        """Change fields of run.json."""
        self._about.update(changes)
        if not self.broken:
            self._guarded(self._tell)

    def close(self) -> None:
        """Write the rest and make everything Parquet. What cannot be made stays readable as frames."""
        if self._folder is None:
            return
        if not self.broken:
            self._guarded(self._write)
        self._miss()
        self.make_room()
        if self.broken or self.missed:  # a disk that is full: what is made Parquet would take the rest of it
            self._guarded(self._end)
        self._guarded(self._finish)
        if not self._about["finished"]:
            self._guarded(self._end)
        self._folder.close()
        self._folder = None

    def leave(self) -> None:
        """Write the rest and let go of the folder, as it would be after a kill: `resume` goes on with it."""
        if self._folder is None:
            return
        if not self.broken:
            self._guarded(self._write)
        self._guarded(self._end_segment)
        if self._turning is not None:
            self._guarded(self._waited)
        self._folder.close()
        self._folder = None

    def _waited(self) -> None:
        if self._turning is not None:
            self._drop(self._turning.wait())

    def _guarded(self, step: Callable[[], None]) -> None:
        """Do something that must cost no more than the recording itself."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - whatever went wrong, what is watched and the verdict go on
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            self.broken = self.broken or f"{why or type(error).__name__} (the recording stops here)"
            self._gap.begin(self._taken[0][0] if self._taken else now(), why or type(error).__name__)
            for _, readings in self._taken:
                self._owed.take(readings)
            self._taken.clear()

    def _try_again(self, now_ns: int) -> None:
        """Go on in a segment of its own where writing is possible again."""
        if self._folder is None or not self._gap.is_due(now_ns):
            return
        self._beaten = now_ns
        before, self.broken = self.broken, ""
        self._guarded(self._end_segment)
        self._guarded(self._mend)
        if self.broken:
            self.broken = before

    def _mend(self) -> None:
        if self._folder is not None:
            self._open_segment(self._folder)
            if owed := self._owed.paid():
                self._taken.append((now(), owed))
            self._due = self._turning is not None
            self._miss()
            self._tell()

    def _miss(self) -> None:
        """Put down what could not be written, if there was anything, and that it is over."""
        if self._gap.since:
            self._about["missed"] = [*self.missed, self._gap.end(offset(self._about))]

    def unread(self, since: int) -> None:
        """Put down that nobody has read anything since then (ns of the monotonic clock) until now."""
        self._about["missed"] = [*self.missed, missed(since, LOST, offset(self._about))]

    @property
    def missed(self) -> list[Json]:
        """Return the times that could not be written, as run.json has them: `from`, `to`, `why`."""
        told = self._about.get("missed")
        return told if isinstance(told, list) else []

    def _write(self) -> None:
        if not self._taken or self._folder is None:
            return
        if self._encoder is None:
            self._open_segment(self._folder)
        if self._encoder is None or self._story is None:
            return
        data, said = self._encoder.encode(self._taken)
        self._append(data)
        self._taken = []
        self._story.take(said)

    def _open_segment(self, folder: Folder) -> None:
        encoding = importlib.import_module("gputune.recording.encoding")
        if self._story is None:
            self._story = importlib.import_module("gputune.recording.story").Story()
        self._file, self._size = folder.append(frames_name(self._segment)), 0
        self._encoder = encoding.Encoder()
        self._append(encoding.schema_frames())

    def _append(self, data: bytes) -> None:
        try:
            write_all(self._file, data)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)  # half a beat is none
            raise
        self._size += len(data)

    def _roll(self) -> None:
        """End the segment; its frames become Parquet beside the recorder."""
        self._end_segment()
        if self._turning is None:
            self._turning = Turning(str(self._path), offset(self._about), self._max_size)
        self._due = True
        self._turned()

    def _end_segment(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._segment += 1
            self._file, self._size, self._encoder = -1, 0, None

    def _turned(self) -> None:
        """Hear of the segments that were turned, and hand over those that have ended since."""
        if self._turning is None or self._folder is None:
            return
        self._drop(self._turning.poll())
        if self._due and not self._turning.busy:
            self._due = False
            self._turning.start([segment for segment in self._folder.frames() if segment < self._segment])

    def _drop(self, dropped: list[Json]) -> None:
        before = self._about["dropped"]
        if dropped and isinstance(before, list):
            self._about["dropped"] = [*before, *dropped]
            self._tell()

    def _finish(self) -> None:
        self._end_segment()
        if self._turning is not None:
            self._drop(self._turning.wait())
        if self._folder is not None and (left := self._folder.frames()):
            self._drop(keeping().keep(self._folder, offset(self._about), self._max_size, left))
        if self._folder is not None and self._segment > FIRST + 1:
            keeping().Keeper(self._folder, offset(self._about)).unify()
            self._folder.tidy()
        self._end()

    def _end(self) -> None:
        self._about["finished"] = True
        self._tell()

    def make_room(self) -> None:
        """Have room on the disk for what is told at the end, also where it is full."""
        if self._folder is not None:
            self._folder.release()

    def _tell(self) -> None:
        """Rewrite run.json."""
        if self._folder is not None:
            if self._story is not None:
                self._about.update(self._story.tell())
            self._folder.write(RUN, sealed(self._about))
