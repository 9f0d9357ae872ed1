"""The files of a run folder and their names. Every file is 0600, and none is reached through a link.

    run.json                    what is known of the run (rewritten whole, atomically)
    frames-00003                what was measured last, as frames
    samples/00002.parquet       what was measured before, one file a segment and table

While `frames-N` is there, part N of every table is ignored: the frames go only when all of them are verified.
"""

import errno
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from gputune.core import opening

RUN = "run.json"
FINDINGS = "findings.json"  # beside it, once the run is over
LIVE = "live.json"  # likewise, while it goes on
EXPORTS = "export.log"  # how `watch --export` went
REPORT = "report.html"  # the verdict as a page, where one was asked for
ROOM = ".room"  # nothing: its place on the disk is for run.json and findings.json at the end
TABLES = ("samples", "batches", "fetches", "steps", "gaps", "spans", "events", "notes", "stacks")
DERIVED = ("cells",)  # likewise, made of one of them: gputune/recording/cells.py
_FRAMES = re.compile(r"frames-(\d{5,})")
_TABLE = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PART = re.compile(r"(\d{5,})\.parquet")


def frames_name(segment: int) -> str:
    """Return the name of a segment's frames."""
    return f"frames-{segment:05d}"


def part_name(table: str, segment: int) -> str:
    """Return the name of a segment's part of a table."""
    return f"{table}/{segment:05d}.parquet"


class Folder:
    """A run folder that is held open: it may be renamed, and no link put in its place is followed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def __enter__(self) -> "Folder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def place(self) -> tuple[int, int]:
        """Return what tells it from every other folder, whatever it is called: device and inode."""
        about = os.fstat(self._fd)
        return about.st_dev, about.st_ino

    def close(self) -> None:
        """Let go of the folder."""
        os.close(self._fd)

    def append(self, name: str) -> int:
        """Make a new file and return its descriptor, open for appending."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=self._fd)

    def write(self, name: str, data: bytes) -> None:
        """Write a whole file under its name, or nothing: readers see the old one or the new one."""
        table, _, base = name.rpartition("/")
        if table:
            self._make(table)
        draft = f"{table}/.{base}.{os.getpid()}" if table else f".{base}.{os.getpid()}"
        self.remove(draft)
        fd = self.append(draft)
        try:
            try:
                write_all(fd, data)
            finally:
                os.close(fd)
            os.rename(draft, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except OSError:
            self.remove(draft)
            raise

    def _make(self, table: str) -> None:
        try:
            os.mkdir(table, 0o700, dir_fd=self._fd)
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(table, dir_fd=self._fd, follow_symlinks=False).st_mode):
                raise

    def open(self, name: str) -> int:
        """Return a descriptor for reading a file; FileNotFoundError if it is not there, OSError where it is none."""
        table, _, base = name.rpartition("/")
        if not table:
            return opening.opened(name, self._fd)
        fd = os.open(table, _TABLE, dir_fd=self._fd)
        try:
            return opening.opened(base, fd)
        finally:
            os.close(fd)

    def read(self, name: str, start: int = 0) -> bytes:
        """Return a file's content from byte `start` on; FileNotFoundError if it is not there, OSError as `opening`."""
        return opening.content(self.open(name), start)

    def reserve(self) -> None:
        """Take room on the disk for what is told at the end: it may be full by then. OSError where it is now."""
        fd = self.append(ROOM)
        try:
            os.posix_fallocate(fd, 0, 1 << 16)  # B: each of the two has some 10 KiB
        finally:
            os.close(fd)

    def release(self) -> None:
        """Give that room back, to be written into."""
        self.remove(ROOM)

    def remove(self, name: str) -> None:
        """Remove a file if it is there."""
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._fd)

    def tidy(self) -> None:
        """Remove the drafts of writers that were killed."""
        drafts = [name for name in self.names() if name.startswith(".")]
        for table in (*TABLES, *DERIVED):
            drafts += [f"{table}/{name}" for name in self._list(table) if name.startswith(".")]
        for name in drafts:
            self.remove(name)

    def cut(self, name: str, size: int) -> None:
        """Shorten a file to `size` bytes."""
        fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._fd)
        try:
            os.ftruncate(fd, size)
        finally:
            os.close(fd)

    def names(self) -> list[str]:
        """Return the names of everything in the folder."""
        return os.listdir(self._fd)  # noqa: PTH208 - a descriptor has no Path

    def frames(self) -> list[int]:
        """Return the segments that are there as frames."""
        return sorted(int(m[1]) for m in map(_FRAMES.fullmatch, self.names()) if m)

    def complete(self) -> list[int]:
        """Return the segments that are there as Parquet and not as frames any more."""
        return sorted(self.parts().keys() - set(self.frames()))

    def segments(self) -> list[int]:
        """Return the segments whose samples are there as Parquet, whether whole or not: one look at one folder."""
        return sorted(int(m[1]) for m in map(_PART.fullmatch, self._list("samples")) if m)

    def parts(self) -> dict[int, dict[str, int]]:
        """Return the segments that are there as Parquet: segment to table to size in bytes."""
        found: dict[int, dict[str, int]] = {}
        for table in (*TABLES, *DERIVED):
            for name in self._list(table):
                match = _PART.fullmatch(name)
                if match:
                    size = os.stat(f"{table}/{name}", dir_fd=self._fd, follow_symlinks=False).st_size
                    found.setdefault(int(match[1]), {})[table] = size
        return dict(sorted(found.items()))

    def _list(self, table: str) -> list[str]:
        try:
            fd = os.open(table, _TABLE, dir_fd=self._fd)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:  # a link is no table
                return []
            raise
        try:
            return os.listdir(fd)  # noqa: PTH208 - as above
        finally:
            os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`; a disk that takes only a part of it raises at the next attempt."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
