"""By how much the device is behind the host at the end of a loop: what was queued until then is not done yet."""

from collections import deque
from collections.abc import Mapping

from gputune.device_time import TOLD, DeviceTime
from gputune.events import Record
from gputune.sample import Json


class Backlog:
    """Of the loop of one process: its batches or steps, and when the device had caught up with them. All are ns."""

    def __init__(self) -> None:
        self._time = DeviceTime()
        self._queued: deque[int] = deque()  # moments of which the device's time is not known yet
        self._first = self._last = 0  # moments of the device: the loop's first, and the last that is known
        self._done = 0  # rounds between the two

    def note(self, fields: Mapping[str, Json]) -> None:
        """Take what the guest said once: whether the device's time will be told."""
        if fields.get("n") == TOLD:
            self._time.expect()

    def take(self, record: Record) -> None:
        """Take a GAP."""
        self._time.take(record)
        self._catch_up()

    def looped(self, t: int) -> None:
        """Learn that a batch came, or a step was over, at `t`."""
        self._time.came(t)
        self._queued.append(t)
        self._catch_up()

    def _catch_up(self) -> None:
        while self._queued and self._time.knows(self._queued[0]):
            self._last = self._time.at(self._queued.popleft())
            if self._first:
                self._done += 1
            else:
                self._first = self._last

    def left(self, end: int) -> int:
        """Return the ns of the device beyond the `end` of the loop: what is not known goes on as it did before."""
        if not self._time.there or not self._done:
            return 0
        each = (self._last - self._first) / self._done
        return max(0, self._last + round(each * len(self._queued)) - end)
