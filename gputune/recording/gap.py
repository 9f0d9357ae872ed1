"""The time in which a recording could not be written, and when to try again."""

from datetime import datetime, timezone

from gputune.core.sample import Json, now
from gputune.core.units import NS

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
        first, last = (datetime.fromtimestamp((t + clocks) / NS, timezone.utc) for t in (self.since, now()))
        self.since, self._pause, self._next = 0, SHORTEST, 0
        return {"from": str(first), "to": str(last), "why": self._why}
