"""Counters of many processes and CPUs, from files of /proc that stay open, read and taken apart together.

In C where gputune was built with a compiler (`_proc.c`), else here, with the same results: in caches that a training
has used for itself, most of what a reading costs is the interpreter's way from one file to the next.
"""

import time
from collections.abc import Sequence
from os import pread
from pathlib import Path
from typing import ClassVar, TypeAlias

from gputune.host.procfs import PAGE, WHOLE, Clocks, OpenProcFile, cpu_clocks, stat_of

FRESH = 0.002  # s that what one probe read serves the others of the same beat: two thousandths of a beat of a second

Stat: TypeAlias = tuple[bytes, int, int, int, int, int]  # as procfs.ProcessStat
Moved: TypeAlias = tuple[int, int, int]


def _stats(descriptors: Sequence[int]) -> list[Stat | None]:
    """Return what each /proc/PID/stat says, None where the process has ended.

    The fields are those of `procfs.ProcessStat`.
    """
    return [stat_of(_read(descriptor)) for descriptor in descriptors]


def _moved(descriptors: Sequence[int]) -> list[Moved | None]:
    """Return bytes (read from storage, written to it, asked for) of each /proc/PID/io, None where it cannot be read."""
    return [_io(_read(descriptor)) for descriptor in descriptors]


def _cpu_clocks(descriptor: int) -> dict[int, tuple[int, int, int]]:
    """Return what `procfs.cpu_clocks` does for the /proc/stat behind a descriptor. Raises OSError."""
    return cpu_clocks(pread(descriptor, WHOLE, 0))


def _read(descriptor: int) -> bytes:
    try:
        return pread(descriptor, PAGE, 0) if descriptor >= 0 else b""
    except OSError:  # its process has ended, or became another user's
        return b""


def _io(text: bytes) -> Moved | None:
    rows = dict(row.split(b":") for row in text.splitlines() if b":" in row)
    try:
        return (int(rows[b"read_bytes"]), int(rows[b"write_bytes"]), int(rows[b"rchar"]))
    except KeyError:
        return None


try:
    from gputune import _proc

    stats, moved = _proc.stats, _proc.moved
    clocks = getattr(_proc, "cpu_clocks", _cpu_clocks)  # one that was built from an older tree knows nothing of it
except ImportError:  # no compiler when it was installed
    stats, moved, clocks = _stats, _moved, _cpu_clocks


class CpuClocks:
    """The clocks of all CPUs, from a /proc/stat that is kept open once and read once for all who ask at one time.

    It is the dearest file of a machine with many CPUs: the kernel adds up every interrupt of each of them.
    """

    _open: ClassVar[dict[str, "_Stat"]] = {}

    def __init__(self, proc: Path) -> None:
        """Open it. Raises OSError."""
        path = f"{proc}/stat"
        self._stat = self._open.get(path) or _Stat(path)
        self._open[path] = self._stat
        self._stat.users.add(self)
        self._reading = 0

    def read(self) -> Clocks:
        """Return what `cpu_clocks` does, as of now; never the same reading twice to one who asks."""
        stat = self._stat
        if stat.reading == self._reading or time.monotonic() - stat.at > FRESH:
            stat.read()
        self._reading = stat.reading
        return stat.clocks

    def close(self) -> None:
        """Let go of it; a second time does nothing."""
        self._stat.users.discard(self)
        if not self._stat.users:
            self._stat.file.close()
            self._open.pop(self._stat.path, None)


class _Stat:
    """One /proc/stat, what was last read of it, and who reads it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.file = OpenProcFile(path)
        self.users: set[CpuClocks] = set()
        self.reading = 0
        self.at = 0.0
        self.clocks: Clocks = {}

    def read(self) -> None:
        """Read it anew."""
        self.clocks = clocks(self.file.fd)
        self.at = time.monotonic()
        self.reading += 1
