"""Stacks that a process takes of its own training thread, where nobody may look from outside: asked for, and read.

The guest in it is asked by a file beside its ring, and answers in another one
(`probes/guest/gputune_guest/looking.py`). It looks ever more seldom by itself; who no longer reads is no longer told.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from gputune.core.sample import Stack

ASK, TOLD = ".ask", ".told"
CREATING = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
READING = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class GuestQuery:
    """Asks the guests that write into `folder`. `heard`: who has answered by now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asked: set[int] = set()
        self.heard: set[int] = set()

    def ask(self, pid: int) -> None:
        """Have the guest in a process look at its own stacks, once and for all."""
        if pid in self._asked:
            return
        self._asked.add(pid)
        with contextlib.suppress(OSError):
            os.close(os.open(self._folder / f"{pid}{ASK}", CREATING, 0o600))

    def collect(self, alive: set[int]) -> list[Stack]:
        """Return what was seen since the last call; of processes that are not `alive` any more that was the last."""
        found: list[Stack] = []
        for pid in sorted(self._asked):
            stacks = stacks_in(self._answer(pid), pid)
            if stacks:
                self.heard.add(pid)
            found += stacks
            if pid not in alive:
                self._forget(pid)
        return found

    def _answer(self, pid: int) -> str:
        path = self._folder / f"{pid}{TOLD}"
        try:
            file = os.open(path, READING)
        except OSError:
            return ""
        try:
            whole = stat.S_ISREG(os.fstat(file).st_mode)
            # 1 << 22 bytes of an answer that are read: sixty stacks of 250 frames
            said = os.read(file, 1 << 22) if whole else b""
        finally:
            os.close(file)
        with contextlib.suppress(OSError):
            path.unlink()
        return said.decode(errors="replace")

    def _forget(self, pid: int) -> None:
        self._asked.discard(pid)
        with contextlib.suppress(OSError):
            (self._folder / f"{pid}{ASK}").unlink()


def stacks_in(answer: str, pid: int) -> list[Stack]:
    """Return the stacks of an answer: lines `123456789 thread (4242): MainThread;<module> (train.py:12) 1`.

    The last line may have lost its end.
    """
    lines = ((head.partition(" ")[0], frames, count) for head, frames, count in raw_stacks(answer))
    return [Stack(int(t), pid, frames, count) for t, frames, count in lines if t.isdecimal()]


def raw_stacks(text: str) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """Yield what py-spy's raw format says of each stack: its thread, frames from the outermost on, how often seen."""
    for line in text.splitlines():
        path, _, count = line.rpartition(" ")
        thread, *frames = path.split(";")
        if frames and count.isdecimal():
            yield thread, tuple(frames), int(count)
