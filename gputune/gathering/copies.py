"""The part of the gatherer that listens to copies from the host to a device, by the place in the code that asks."""

from collections.abc import Callable
from dataclasses import dataclass

from gputune.core.events import CopyField, Record
from gputune.core.units import NS
from gputune.features import Copy

NOTABLE = 1 << 16  # B; a smaller copy takes as long as asking for it


@dataclass(slots=True)
class _Sum:
    """The copies from one place."""

    count: int = 0
    ns: int = 0
    size: int = 0
    pinned: int = 0  # B
    non_blocking: int = 0  # B
    fastest: float = 0.0  # B/s


class Copies:
    """The copies of one training process, on its training thread."""

    def __init__(self) -> None:
        self._sums: dict[int, _Sum] = {}

    def take(self, record: Record) -> None:
        """Take one copy.h2d span."""
        if record.a not in self._sums and len(self._sums) >= 200:  # places kept: a training has a handful
            return
        mine = self._sums.setdefault(record.a, _Sum())
        mine.count += 1
        mine.ns += record.t1 - record.t0
        mine.size += record.b
        unattended = record.c & CopyField.FROM_PINNED and record.c & CopyField.NON_BLOCKING
        if record.b >= NOTABLE and not unattended:
            mine.fastest = max(mine.fastest, record.b * NS / max(1, record.t1 - record.t0))
        mine.pinned += record.b if record.c & CopyField.FROM_PINNED else 0
        mine.non_blocking += record.b if record.c & CopyField.NON_BLOCKING else 0

    def features(self, place: Callable[[int], tuple[str, str]]) -> tuple[Copy, ...]:
        """Return them by place, most time first. `place` tells (where, what) of a site."""
        found = []
        for site, mine in self._sums.items():
            where, what = place(site)
            size = max(1, mine.size)
            found.append(
                Copy(
                    where=where,
                    what=what,
                    count=mine.count,
                    seconds=mine.ns / NS,
                    size=mine.size,
                    pinned=mine.pinned / size,
                    non_blocking=mine.non_blocking / size,
                    fastest=mine.fastest,
                )
            )
        return tuple(sorted(found, key=lambda copy: -copy.seconds))
