"""The tasks' logs read while they are written: for the terminal, for a metric, and as a sign of life."""

import math
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gputune.core.hygiene import clean
from gputune.core.pace import Pace
from gputune.sharing.member import Member

LINE_CHARS = 4096  # characters of a line that is shown or looked through
UNIT = "metric"
COLOURS = ("36", "33", "32", "35", "34", "31")  # of the prefixes, one process after the other

Show = Callable[[int, str], None]


class Log:
    """One log, from where it was last read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = 0
        self._part = b""

    def lines(self) -> list[str]:
        """Return whole lines that are new."""
        try:
            with Path(self._path).open("rb") as file:
                if os.fstat(file.fileno()).st_size < self._at:
                    self._at, self._part = 0, b""
                file.seek(self._at)
                data = file.read(1 << 16)  # bytes read of one log at a time
        except OSError:
            return []
        self._at += len(data)
        *whole, self._part = (self._part + data).replace(b"\r", b"\n").split(b"\n")
        if len(self._part) > LINE_CHARS:
            whole, self._part = [*whole, self._part], b""
        return [line.decode("utf-8", "replace") for line in whole if line]

    def rest(self) -> list[str]:
        """Return what is left when nothing more will come, its last line without an end included."""
        found: list[str] = []
        while new := self.lines():
            found += new
        last, self._part = self._part.decode("utf-8", "replace"), b""
        return [*found, last] if last else found


class LoggedPace:
    """What a task says of its own pace: the mean of the numbers since a moment."""

    def __init__(self) -> None:
        self._sum = self._whole = 0.0
        self._count = self._all = 0

    def take(self, value: float) -> None:
        """Take a number that was just printed."""
        self._sum += value
        self._whole += value
        self._count += 1
        self._all += 1

    def mark(self) -> None:
        """Begin a mean anew."""
        self._sum, self._count = 0.0, 0

    @property
    def count(self) -> int:
        """Return how many numbers there were since the mark."""
        return self._count

    def pace(self) -> Pace | None:
        """Return the mean since the mark."""
        return Pace(self._sum / self._count, UNIT) if self._count else None

    def mean(self) -> Pace | None:
        """Return the mean of all of them."""
        return Pace(self._whole / self._all, UNIT) if self._all else None


class Logs:
    """All logs. `show` is given a task's slot and its lines, with a prefix, where they are followed."""

    def __init__(self, members: Sequence[Member], pattern: "re.Pattern[str] | None", show: Show | None) -> None:
        self._pattern = pattern
        self.has_metric = pattern is not None
        self._show = show
        self._logs: dict[int, Log] = {}
        self._sizes: dict[int, int] = {}
        self.moved: dict[int, float] = {}  # slot to when its log last grew, s
        self.metrics: dict[int, LoggedPace] = {}
        self._width = 0
        self.meet(members)

    def meet(self, members: Sequence[Member]) -> None:
        """Learn of tasks."""
        for member in members:
            self._logs.setdefault(member.task.slot, Log(member.task.log))
            self.metrics.setdefault(member.task.slot, LoggedPace())
            self._width = max(self._width, len(_label(member)))

    def look(self, members: Sequence[Member]) -> None:
        """Read what is new of those that run."""
        for member in members:
            slot = member.task.slot
            try:
                size = Path(member.task.log).stat().st_size
            except OSError:
                continue
            if size == self._sizes.get(slot, 0):
                continue
            self._sizes[slot] = size
            self.moved[slot] = time.monotonic()
            if self._show is not None or self._pattern is not None:
                self._lines(member, self._logs[slot].lines())

    def last(self, member: Member) -> None:
        """Read to the end of the log of a task that has ended."""
        if self._show is not None or self._pattern is not None:
            self._lines(member, self._logs[member.task.slot].rest())

    def _lines(self, member: Member, lines: Sequence[str]) -> None:
        for line in lines:
            number = self._number(line[:LINE_CHARS])
            if number is not None:
                self.metrics[member.task.slot].take(number)
            if self._show is not None:
                self._show(member.task.slot, self._prefixed(member, line))

    def _number(self, line: str) -> float | None:
        match = self._pattern.search(line) if self._pattern is not None else None
        try:
            found = float(match[1].replace(",", "")) if match else None
        except (ValueError, AttributeError):
            return None
        return found if found is not None and math.isfinite(found) else None

    def _prefixed(self, member: Member, line: str) -> str:
        return f"{_label(member):>{self._width}} | {clean(line, LINE_CHARS)}"


def _label(member: Member) -> str:
    return member.task.label if member.task.job.name else str(member.task.slot)


def painted(line: str, slot: int) -> str:
    """Return a line with its prefix in the colour of its task."""
    label, bar, rest = line.partition(" | ")
    return f"\x1b[{COLOURS[slot % len(COLOURS)]}m{label}{bar}\x1b[0m{rest}"
