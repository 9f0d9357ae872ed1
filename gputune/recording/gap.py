"""The times of which a recording tells nothing, in words; and when to try again where it could not be written."""

from collections.abc import Iterable
from datetime import datetime, timezone

from gputune.core.figures import duration
from gputune.core.sample import Json, now
from gputune.core.units import NS

LOST = "the recorder was lost, and started again"  # why nothing was read for a while
SHORTEST, LONGEST = NS, 60 * NS  # ns between two attempts: the first of them, and what doubling it leads to


class Gap:
    """`since` is when the first reading was taken that is missing (ns of the monotonic clock), 0 while all is well."""

    def __init__(self) -> None:
        self.since = 0
        self._why = ""
        self._pause = SHORTEST
        self._next = 0

    def begin(self, since: int, why: str) -> None:
        """Note that writing has failed; again, where it had before."""
        if not self.since:
            self.since, self._why = since, why

    def is_due(self, at: int) -> bool:
        """Return whether to try again now (ns); who is told so does."""
        if at < self._next:
            return False
        self._next, self._pause = at + self._pause, min(LONGEST, 2 * self._pause)
        return True

    def end(self, clocks: int) -> dict[str, Json]:
        """Return what was missed, until now. `clocks`: ns from the monotonic clock to Unix time."""
        found = missed(self.since, self._why, clocks)
        self.since, self._pause, self._next = 0, SHORTEST, 0
        return found


def missed(since: int, why: str, clocks: int) -> dict[str, Json]:
    """Return the time from `since` (ns of the monotonic clock) until now, as run.json has it. `clocks`: as above."""
    first, last = (datetime.fromtimestamp((t + clocks) / NS, timezone.utc) for t in (since, now()))
    return {"from": str(first), "to": str(last), "why": why}


def unread(missed: Iterable[Json]) -> str:
    """Return for how long nobody read anything, and why; "" where that never was so."""
    lengths = [_length(gap) for gap in missed if isinstance(gap, dict) and gap.get("why") == LOST]
    often = f" {len(lengths)} times" if len(lengths) > 1 else ""
    return f"nothing was read for {duration(sum(lengths))}: {LOST}{often}" if lengths else ""


def unwritten(missed: Iterable[Json]) -> str:
    """Return for how long nothing could be written, and why; "" where that never was so."""
    gaps = [gap for gap in missed if isinstance(gap, dict) and gap.get("why") != LOST]
    whys = ", ".join({str(gap.get("why", "")): None for gap in gaps})
    return f"for {duration(sum(map(_length, gaps)))} it could not be written: {whys}" if gaps else ""


def _length(gap: dict[str, Json]) -> float:
    """Return how long a time was, in s; 0 where it says nothing that makes sense."""
    try:
        first, last = (datetime.fromisoformat(str(gap.get(edge))) for edge in ("from", "to"))
        return max(0.0, (last - first).total_seconds())
    except (ValueError, TypeError):  # also one with a time zone, and one without
        return 0.0
