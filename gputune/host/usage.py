"""What one process of the tree uses: CPU time, storage, threads, from files of /proc that stay open."""

from os import pread
from pathlib import Path
from typing import TypeAlias

from gputune.core.sample import Role
from gputune.host.counters import Moved, Stat
from gputune.host.procfs import PAGE, OpenProcFile

Bytes: TypeAlias = Moved
NOTHING: Bytes = (0, 0, 0)
UNKNOWN: Stat = (b"S", 0, 0, 0, 1, 0)


class Usage:
    """One process, held by open files: what it used since the last reading, and in all when it was last read.

    The kernel adds what a child has used to its parent when that waits for it: CPU time in fields of its own, storage
    bytes into the same ones. `owed` is what was already counted for children that ended, to be taken off again.
    Most processes of a tree do nothing for most of the time: what reads the same as before is not looked at.
    """

    __slots__ = (
        "_bytes_new", "_stat", "_wait_new", "_wait_text", "bytes", "cpu", "heir", "inherited", "io", "owed",
        "owed_bytes", "pid", "queued", "ran", "role", "schedstat", "stat", "state", "threads", "waited",
    )  # fmt: skip

    def __init__(self, proc: Path, pid: int) -> None:
        """Open its files. Raises OSError where it has ended."""
        folder = f"{proc}/{pid}"
        self.pid = pid
        self.role: Role = "other"
        self.stat = OpenProcFile(f"{folder}/stat", PAGE)
        self.io = _optional(f"{folder}/io")
        self.schedstat = _optional(f"{folder}/schedstat")
        self._stat = UNKNOWN
        self._wait_text = self._wait_new = b""
        self.cpu = self.waited = self.queued = 0
        self.ran = self.inherited = 0  # clock ticks since the last reading
        self.owed = 0
        self.bytes = self.owed_bytes = self._bytes_new = NOTHING
        self.state = b"S"
        self.threads = 1
        self.heir: Role = "other"  # what the children were whose CPU time it inherits

    def count(self, stat: Stat) -> None:
        """Take what its stat says now."""
        if stat == self._stat:
            self.ran = self.inherited = 0
            return
        self._stat = stat
        self.state, _, cpu, waited, self.threads, _ = stat
        self.ran, self.inherited = cpu - self.cpu, waited - self.waited
        self.cpu, self.waited = cpu, waited

    def carried(self, moved: Bytes | None) -> None:
        """Take what its `io` says now; None if it ended in between: what it had when it was last read counts."""
        if moved is not None:
            self._bytes_new = moved

    def queue(self) -> None:
        """Read its `schedstat`."""
        try:
            if self.schedstat is not None:
                self._wait_new = pread(self.schedstat.fd, PAGE, 0)
        except OSError:  # it ended in between
            return

    @property
    def parent(self) -> int:
        """Return the pid of its parent when it was last read."""
        return self._stat[1]

    @property
    def started(self) -> int:
        """Return when it began, in clock ticks since boot."""
        return self._stat[5]

    def forget(self) -> None:
        """Count from here: what it used before is not of this run."""
        self.ran = self.inherited = 0
        self.moved()
        self.waited_for_cpu()

    def settled(self) -> int:
        """Return the CPU time since the last reading of children that nobody met while they lived."""
        extra = self.inherited - self.owed
        self.owed = max(0, -extra)
        return max(0, extra)

    def moved(self) -> Bytes:
        """Return the bytes that are new since the last call, as far as they are to be seen."""
        if self._bytes_new == self.bytes:
            return NOTHING
        before, self.bytes = self.bytes, self._bytes_new
        return self._settled_bytes(minus(self.bytes, before))

    def _settled_bytes(self, new: Bytes) -> Bytes:
        """Return what is left of new bytes when those that were counted for its children are taken off."""
        if self.owed_bytes == NOTHING:
            return new
        read, written, asked = minus(new, self.owed_bytes)
        self.owed_bytes = (max(0, -read), max(0, -written), max(0, -asked))
        return (max(0, read), max(0, written), max(0, asked))

    def waited_for_cpu(self) -> int:
        """Return the ns since the last call in which its first thread was runnable without a CPU."""
        text = self._wait_new
        if text == self._wait_text:
            return 0
        self._wait_text = text
        words = text.split()
        if len(words) < 2:
            return 0
        before, self.queued = self.queued, int(words[1])
        return self.queued - before

    def close(self) -> None:
        """Let go of its files."""
        for file in (self.stat, self.io, self.schedstat):
            if file is not None:
                file.close()


def _optional(path: str) -> OpenProcFile | None:
    try:
        return OpenProcFile(path, PAGE)
    except OSError:  # of another user, or not built into this kernel
        return None


def minus(a: Bytes, b: Bytes) -> Bytes:
    """Return a - b."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])
