"""When the device of a process was through with what its host had queued: the time by which windows are measured.

The host queues work and goes on: by its own clock alone one measures how fast it queues, up to a thousand launches
ahead of the device. So a batch counts from the moment at which it was there *and* the device was through with all that
came before it, and not at all as long as that moment is not known. Both ends of a window are such moments: what was
queued ahead of its first batch, and what is still in the queue at its end, is none of it.

Only where the device works off a backlog that it had as a window began is the host the slower one, and its time counts.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass, field

from gputune.core.events import Record

TOLD = "device"  # the note of a guest that times what the device does

MOMENTS_KEPT = 1 << 16  # moments of which it is known; the older half of more goes
SILENT_NS, SILENT = 10_000_000_000, 64  # without a word of the device, through as many batches: it says no more


class DeviceTime:
    """Of one process. Where its guest says nothing of a device the host's moments are the device's. All are ns."""

    def __init__(self) -> None:
        self.there = False  # its guest tells how far the device is behind
        self._moments: array[int] = array("q")  # of the host
        self._through: array[int] = array("q")  # when the device was through with what was queued by then
        self._first = self._latest = self._heard = 0  # batches: the first, the last, and the last one before a word
        self._unheard = 0  # batches since
        self._pauses: deque[tuple[int, int]] = deque(maxlen=1024)  # that wait for the device
        self._paused_at: array[int] = array("q")  # ends of pauses, by the host
        self._paused: array[int] = array("q")  # ns of the device in them, so far

    def expect(self) -> None:
        """Learn that its guest times what the device does (note `device`): from then on only what is told is known."""
        self.there = True
        self._heard, self._unheard = self._latest, 0

    def came(self, t: int) -> None:
        """Learn that a batch came, or a step was over, at `t`."""
        self._heard = self._heard or t
        self._first = self._first or t
        self._latest = t if t > self._latest else self._latest  # asked of every batch and step
        self._unheard += 1

    def take(self, record: Record) -> None:
        """Take a GAP: nothing is queued while the host is in the next() that it is about."""
        if not record.c:
            return
        through = record.t0 + (record.c - 1) * 1000
        self.there = True
        if not self._moments:
            self._add(min(self._first or record.t0, record.t0), 0)
        self._add(record.t1, through)
        self._heard, self._unheard = self._latest, 0

    def _add(self, t: int, through: int) -> None:
        if self._moments and t <= self._moments[-1]:
            return
        if len(self._moments) >= MOMENTS_KEPT:
            del self._moments[: MOMENTS_KEPT // 2], self._through[: MOMENTS_KEPT // 2]
        self._moments.append(t)
        self._through.append(max(through or t, self._through[-1] if self._through else 0))

    def knows(self, t: int) -> bool:
        """Return whether it is known when the device was through with what had been queued by `t`."""
        return not self.there or (bool(self._moments) and t <= self._moments[-1]) or self._is_silent

    @property
    def _is_silent(self) -> bool:
        return self._unheard > SILENT and self._latest - self._heard > SILENT_NS

    def at(self, t: int) -> int:
        """Return when the device was through with what had been queued by `t`, which is not before `t`."""
        if not self.there:
            return t
        after = bisect_left(self._moments, t)
        if after == 0:
            return t
        before_t, before = self._moments[after - 1], self._through[after - 1]
        if after == len(self._moments):
            return max(t, t + before - before_t)
        span, rise = self._moments[after] - before_t, self._through[after] - before
        return max(t, before + rise * (t - before_t) // span)

    def moment_before(self, t: int) -> int:
        """Return the last moment up to `t` of which it is known how far the device was behind; 0 if there is none."""
        after = bisect_right(self._moments, t)
        return self._moments[after - 1] if after else 0

    def pause(self, t0: int, t1: int) -> None:
        """Learn that from `t0` to `t1` the host did what is not counted."""
        self._pauses.append((t0, t1))

    def paused(self, t: int) -> int:
        """Return the device's ns in the pauses that were over by `t`: less than the host's where it had work left."""
        while self._pauses and self._pauses[0][1] <= t:
            t0, t1 = self._pauses.popleft()
            before = self._paused[-1] if self._paused else 0
            if len(self._paused) >= MOMENTS_KEPT:
                del self._paused[: MOMENTS_KEPT // 2], self._paused_at[: MOMENTS_KEPT // 2]
            self._paused.append(before + self.at(t1) - self.at(t0))
            self._paused_at.append(t1)
        over = bisect_right(self._paused_at, t)
        return self._paused[over - 1] if over else 0


@dataclass(slots=True)
class Moments:
    """When batches were there, ns: `ends` by the host, `caught` by the device and without pauses, as far as known."""

    time: DeviceTime = field(default_factory=DeviceTime)
    ends: "array[int]" = field(default_factory=lambda: array("q"))
    caught: "array[int]" = field(default_factory=lambda: array("q"))

    def came(self, t: int) -> None:
        """Take one batch more."""
        self.ends.append(t)
        self.time.came(t)
        self.catch_up()

    def catch_up(self) -> None:
        """Learn of which batches the device's time is known by now."""
        if not self.time.there:
            return
        for end in self.ends[len(self.caught) :]:
            if not self.time.knows(end):
                return
            self.caught.append(self.time.at(end) - self.time.paused(end))

    @property
    def known(self) -> int:
        """Return how many of the batches have a time: those behind them are on their way."""
        return len(self.caught) if self.time.there else len(self.ends)


def drained(host: float, device: float, batches: int) -> bool:
    """Return whether a window of so many batches took longer by the host's time than by the device's, not by chance.

    Then the device worked off what was queued before, and the host sets the pace.
    """
    # From 2.0 batches on it is no chance that the device is less behind at the end of a window than at its begin
    return (host - device) * batches > 2.0 * device


def elapsed(host: float, device: float, batches: int) -> float:
    """Return how long a window of so many batches took, in the unit of both times."""
    return host if drained(host, device, batches) else device
