"""By how much the device is behind the host at a loop's end and where a pause begins, and how long its steps are.

What was queued until then is not done yet. A pause that reads from the device stands there until it is, and the device
works meanwhile: that is the training's time and no pause's. So a pause took what it took the device.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

from gputune.core.events import Record
from gputune.core.sample import Json
from gputune.gathering.device_time import TOLD, DeviceTime
from gputune.gathering.rollouts import Key

PAUSES = 1024  # that wait until the device's time is known


class Queued(NamedTuple):
    """What the loop has done by `t`, ns: steps that are over, None where none ends there, and ns of its pauses."""

    t: int
    steps: int | None
    paused: int


class Backlog:
    """Of the loop of one process: its batches or steps, and when the device had caught up with them. All are ns."""

    def __init__(self) -> None:
        self._time = DeviceTime()
        self._queued: deque[Queued] = deque()  # of which the device's time is not known yet
        self._first = self._last = 0  # moments of the device: the loop's first, and the last that is known
        self._done = 0  # rounds between the two
        self._pauses: deque[tuple[Key, int, int]] = deque(maxlen=PAUSES)  # likewise
        self._met: deque[int] = deque(maxlen=PAUSES)  # when the host had waited for the device
        self._stood: Counter[Key] = Counter()  # of which those of a place waited for what was queued before
        self._stood_ever = 0
        self._settled = 0  # when the first steps were over, by the host
        self._since = self._until = (0, 0, 0)  # by the device: when they were over, and the latest one; steps, pauses

    def note(self, fields: Mapping[str, Json]) -> None:
        """Take what the guest said once: whether the device's time will be told."""
        if fields.get("n") == TOLD:
            self._time.expect()

    def take(self, record: Record) -> None:
        """Take a GAP."""
        self._time.take(record)
        self._catch_up()

    def looped(self, t: int, steps: int | None = None, paused: int = 0) -> None:
        """Learn that a batch came, or a step was over, at `t`; steps and ns of pauses of the loop by then."""
        self._time.came(t)
        if not self._time.there and not self._queued:  # no device is behind: it is over as it is told
            self._caught_up(Queued(t, steps, paused), t)
            return
        self._queued.append(Queued(t, steps, paused))
        self._catch_up()

    def settled(self, t: int) -> None:
        """Learn that the first steps are over, at `t`: from the next round on the others count."""
        self._settled = t

    def paused(self, key: Key, t0: int, t1: int) -> None:
        """Learn of a pause of the loop."""
        if self._time.there:
            self._pauses.append((key, t0, t1))
            self._catch_up()

    def met(self, t: int) -> None:
        """Learn that the host had waited for the device until `t`: a pause after that waits for nothing more."""
        self._met.append(t)

    def stood(self, key: Key) -> int:
        """Return for how long the pauses of a place waited for what the training had queued before them."""
        return max(0, self._stood[key])

    def stood_in(self, span: str) -> int:
        """Return the same of all pauses of a kind."""
        return sum(self.stood(key) for key in self._stood if key[0] == span)

    def _catch_up(self) -> None:
        while self._pauses and self._time.knows(self._pauses[0][2]):
            key, t0, t1 = self._pauses.popleft()
            met = next((t for t in reversed(self._met) if t <= t0), 0)
            if met > self._time.moment_before(t0):
                continue
            stood = (t1 - t0) - (self._time.at(t1) - self._time.at(t0))
            self._stood[key] += stood
            self._stood_ever += stood
        while self._queued and self._time.knows(self._queued[0].t):
            over = self._queued.popleft()
            self._caught_up(over, self._time.at(over.t))

    def _caught_up(self, over: Queued, t: int) -> None:
        self._last = t
        if self._first:
            self._done += 1
        else:
            self._first = t
        if over.steps is not None and 0 < self._settled <= over.t:
            self._until = t, over.steps, over.paused - self._stood_ever
            self._since = self._since if self._since[0] else self._until

    @property
    def mean_step(self) -> tuple[float, float] | None:
        """Return the ns of the device for a step of all that came after the first ones, and its pauses, if known."""
        took, steps, paused = (until - since for until, since in zip(self._until, self._since, strict=True))
        return (max(0, took - paused) / steps, max(0, paused) / steps) if steps > 0 else None

    def left(self, end: int) -> int:
        """Return the ns of the device beyond the `end` of the loop: what is not known goes on as it did before."""
        if not self._time.there or not self._done:
            return 0
        each = (self._last - self._first) / self._done
        return max(0, self._last + round(each * len(self._queued)) - end)
