"""What one device did with its time and with electricity, from its first reading to its last one."""

from dataclasses import dataclass

from gputune.core.units import NS
from gputune.features import COVERED

HELD = 5.0  # s that a reading stands for the time before it, at the most: a longer gap is not known
IDLE = 0.05  # of a device's time with a kernel: a power reading below it is of a device that waits


@dataclass(slots=True)
class Meter:
    """Sums over the whole run, start-up included: what is paid for. Times in ns, power in W, energy in J."""

    first: int = 0  # of the readings of utilisation
    _last: int = 0
    known: float = 0.0
    worked: float = 0.0
    _busy: float = 0.0
    _power_last: int = 0
    _power_known: float = 0.0
    _drawn: float = 0.0
    _idle_sum: float = 0.0
    _idle_count: int = 0
    _least: float = float("inf")
    _counter_from: tuple[int, float] | None = None
    _counter_to: tuple[int, float] | None = None

    def take(self, name: str, t: int, value: float) -> None:
        """Take one reading of the device."""
        if name == "gpu.busy":
            self._used(t, value)
        elif name == "gpu.power":
            self._power(t, value)
        elif name == "gpu.energy":
            self._counter_from = self._counter_from or (t, value)
            self._counter_to = (t, value)

    def _used(self, t: int, share: float) -> None:
        if self.first:
            seconds = min(HELD, max(0, t - self._last) / NS)
            self.known += seconds
            self.worked += share * seconds
        self.first = self.first or t
        self._last, self._busy = t, share

    def _power(self, t: int, watts: float) -> None:
        if self._power_last:
            seconds = min(HELD, max(0, t - self._power_last) / NS)
            self._power_known += seconds
            self._drawn += watts * seconds
        self._power_last = t
        self._least = min(self._least, watts)
        if self.first and self._busy <= IDLE:
            self._idle_sum += watts
            self._idle_count += 1

    def idle(self, started: int, until: int) -> float | None:
        """Return the s between `started` and `until` without a kernel, by anyone; None where it was not measured.

        Before its first reading the device was not the job's yet: it waited. A short gap counts as the rest does.
        """
        if not self.known or self._is_part(self.known, until):
            return None
        share = 1.0 - self.worked / self.known
        return max(0, self.first - started) / NS + share * max(0, until - max(started, self.first)) / NS

    def energy(self, until: int) -> float | None:
        """Return the J drawn from the first reading to `until`: by its counter, and by power where that is not read.

        None where most of the time was not metered: the first seconds say nothing of what came after them.
        """
        watts = self._drawn / self._power_known if self._power_known else None
        counted = since = 0.0
        if self._counter_from and self._counter_to and self._counter_to[1] >= self._counter_from[1]:
            counted = self._counter_to[1] - self._counter_from[1]
            since = (self._counter_to[0] - self._counter_from[0]) / NS
            watts = counted / since if since and watts is None else watts
        if watts is None or not self.first or self._is_part(max(since, self._power_known), until):
            return None
        return counted + watts * max(0.0, (until - self.first) / NS - since)

    def _is_part(self, known: float, until: int) -> bool:
        """Return whether so many s are a part of the run only: one reading too few is no gap, most of a run is one."""
        whole = max(0, until - self.first) / NS
        return whole - known > max(HELD, (1 - COVERED) * whole)

    @property
    def idle_power(self) -> float | None:
        """Return the W that it draws while it waits; where it never did for a whole reading the least it drew."""
        if self._idle_count:
            return self._idle_sum / self._idle_count
        return self._least if self._power_known else None
