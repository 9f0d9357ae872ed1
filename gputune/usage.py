"""What one process of the tree uses: CPU time, storage, threads, from files of /proc that stay open."""

from os import pread
from pathlib import Path
from typing import TypeAlias

from gputune.procfs import CSTIME, CUTIME, PAGE, PPID, STARTED, STATE, STIME, THREADS, UTIME, Kept, stat_fields
from gputune.sample import Role

Bytes: TypeAlias = tuple[int, int, int]  # read from storage, written to it, asked for
NOTHING: Bytes = (0, 0, 0)


class Usage:
    """One process, held by open files: what it used since the last reading, and in all when it was last read.

    The kernel adds what a child has used to its parent when that waits for it: CPU time in fields of its own, storage
    bytes into the same ones. `owed` is what was already counted for children that ended, to be taken off again.
    Most processes of a tree do nothing for most of the time: what reads the same as before is not looked at.
    """

    __slots__ = (
        "_fields", "_io_new", "_io_text", "_stat_text", "_wait_new", "_wait_text", "bytes", "cpu", "heir", "inherited",
        "io", "owed", "owed_bytes", "pid", "queued", "ran", "role", "schedstat", "stat", "state", "threads", "waited",
    )  # fmt: skip

    def __init__(self, proc: Path, pid: int) -> None:
        """Open its files. Raises OSError where it has ended."""
        folder = f"{proc}/{pid}"
        self.pid = pid
        self.role: Role = "other"
        self.stat = Kept(f"{folder}/stat", PAGE)
        self.io = _optional(f"{folder}/io")
        self.schedstat = _optional(f"{folder}/schedstat")
        self._stat_text = self._io_text = self._wait_text = b""
        self._io_new = self._wait_new = b""
        self._fields: list[bytes] = []
        self.cpu = self.waited = self.queued = 0
        self.ran = self.inherited = 0  # clock ticks since the last reading
        self.owed = 0
        self.bytes = self.owed_bytes = NOTHING
        self.state = b"S"
        self.threads = 1
        self.heir: Role = "other"  # what the children were whose CPU time it inherits

    def read(self, *, io: bool, queue: bool) -> bool:
        """Read its stat, and where asked for its `io` and its `schedstat`; False if it has ended."""
        try:
            text = pread(self.stat.fd, PAGE, 0)
        except OSError:
            return False
        if text == self._stat_text:
            self.ran = self.inherited = 0
        else:
            self._stat_text = text
            self._count(stat_fields(text, STARTED + 1))
        try:
            if io and self.io is not None:  # at once, while the kernel has the process at hand
                self._io_new = pread(self.io.fd, PAGE, 0)
            if queue and self.schedstat is not None:
                self._wait_new = pread(self.schedstat.fd, PAGE, 0)
        except OSError:  # it ended in between: what it had when it was last read counts
            return True
        return True

    def _count(self, fields: list[bytes]) -> None:
        self._fields = fields
        cpu, waited = int(fields[UTIME]) + int(fields[STIME]), int(fields[CUTIME]) + int(fields[CSTIME])
        self.ran, self.inherited = cpu - self.cpu, waited - self.waited
        self.cpu, self.waited = cpu, waited
        self.state, self.threads = fields[STATE], int(fields[THREADS])

    @property
    def parent(self) -> int:
        """Return the pid of its parent when it was last read."""
        return int(self._fields[PPID])

    @property
    def started(self) -> int:
        """Return when it began, in clock ticks since boot."""
        return int(self._fields[STARTED])

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
        text = self._io_new
        if text == self._io_text:
            return NOTHING
        self._io_text = text
        words = text.split(None, 12)
        if len(words) < 12:
            return NOTHING
        before, self.bytes = self.bytes, (int(words[9]), int(words[11]), int(words[1]))
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


def _optional(path: str) -> Kept | None:
    try:
        return Kept(path, PAGE)
    except OSError:  # of another user, or not built into this kernel
        return None


def minus(a: Bytes, b: Bytes) -> Bytes:
    """Return a - b."""
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])
