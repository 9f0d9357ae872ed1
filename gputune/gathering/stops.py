"""The clock of a process that somebody stops now and then (Ctrl-Z, a batch system): it stands still with the process.

All that a training process and its workers tell is put on this clock before it is looked at, so that no step and no
wait is blamed for time in which nobody ran.
"""

from collections.abc import Mapping

from gputune.core.events import Record
from gputune.core.sample import Json


class Stops:
    """The stops of one process, from the notes of `probes/stops.py`. Times in ns, in the order in which they came."""

    def __init__(self) -> None:
        self._over: list[tuple[int, int]] = []
        self.began = 0  # of the stop that goes on, 0 where it runs
        self._ran = 0  # until then it did: something of its own ended there, or a stop did

    def take(self, fields: Mapping[str, Json]) -> None:
        """Take a note: it was stopped, or goes on.

        That is known half a look late or early. What it had done by then was put on this clock already, which therefore
        stands still from there on at the earliest: one that went back would have steps of less than no time.
        """
        at = max(int(str(fields["t"])), self._ran)
        if fields["n"] == "stopped":
            self.began = self.began or at
        elif self.began:
            # 1000 stops of one process; of one that is stopped more often, later stops count as running
            if len(self._over) < 1000:
                self._over.append((self.began, max(self.began, at)))
            self.began, self._ran = 0, max(self.began, at)

    def before(self, t: int) -> int:
        """Return for how long it had stood still by `t`."""
        still = sum(max(0, min(end, t) - begin) for begin, end in self._over)
        return still + (max(0, t - self.began) if self.began else 0)

    def running(self, t: int) -> int:
        """Return `t` on the clock that stands still with it."""
        return t - self.before(t) if self._over or self.began else t

    def own(self, record: Record) -> Record:
        """Return a record of the process itself on that clock. Not while it stands still."""
        self._ran = max(self._ran, record.t1)
        return self.record(record) if self._over or self.began else record

    def record(self, record: Record) -> Record:
        """Return a record of another one, which works for it, on that clock."""
        if not self._over and not self.began:
            return record
        return record._replace(t0=self.running(record.t0), t1=self.running(record.t1))
