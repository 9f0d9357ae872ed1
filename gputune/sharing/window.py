"""A stretch of time in which the same tasks run: how fast they go in it, and how busy the machine is."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gputune.core.pace import Pace, together
from gputune.sharing.cards import SharedDevice
from gputune.sharing.gauge import Gauge
from gputune.sharing.logs import Logs
from gputune.sharing.member import Member
from gputune.sharing.placing import Places
from gputune.sharing.progress import Progress, TaskCounts, between


@dataclass(frozen=True, slots=True)
class WindowMeans:
    """What a window has shown while all of its tasks ran: `pace` of them together, the CPUs and the device's share."""

    copies: int
    seconds: float
    pace: Pace
    busy: float | None
    cores: float | None


@dataclass(slots=True)
class Eyes:
    """All that tasks are seen by."""

    progress: Progress
    logs: Logs
    gauge: Gauge
    places: Places

    def cards(self, members: Iterable[Member]) -> tuple[SharedDevice, ...]:
        """Return the devices that these are on, as far as they are known."""
        found = (self.places.card_of(member.task) for member in members)
        return tuple({card.device.index: card for card in found if card is not None}.values())


class Window:
    """Begins by itself once every task is warm."""

    def __init__(self, members: Sequence[Member], eyes: Eyes) -> None:
        self.members = tuple(members)
        self._progress = eyes.progress
        self._logs = eyes.logs
        self._gauge = eyes.gauge
        self._eyes = eyes
        self._cards: tuple[SharedDevice, ...] = ()  # those that count when it begins
        self.kept: WindowMeans | None = None
        self._kept_at = self._warm_at = 0.0
        self._came = {m.task.slot: self._done(m) for m in members}
        self._marks: dict[int, TaskCounts] = {}
        self._cpu = 0.0
        self.began = 0.0

    @property
    def slots(self) -> frozenset[int]:
        """Return whose it is."""
        return frozenset(m.task.slot for m in self.members)

    @property
    def seconds(self) -> float:
        """Return how long it has lasted; 0 before it has begun."""
        return time.monotonic() - self.began if self.began else 0.0

    def look(self) -> None:
        """Begin, if every task is warm; keep what it shows, once a second."""
        if not self.began:
            at = time.monotonic()
            if self._warm_at == 0.0 and all(self._warm(m) for m in self.members):
                self._warm_at = at
            # 1.0 s that then pass: kernels and batches are queued ahead, and until the queues are full all look
            # faster
            if self._warm_at and at - self._warm_at >= 1.0:
                self.begin()
        elif time.monotonic() - self._kept_at >= 1.0:  # s between two times that what it has shown is kept
            self._kept_at = time.monotonic()
            pace = self.together()
            if pace is not None:
                self.kept = WindowMeans(len(self.members), self.seconds, pace, self.busy(), self.cores())

    def begin(self) -> None:
        """Begin now."""
        self.began = self._kept_at = time.monotonic()
        self._marks = {m.task.slot: self._progress.count(m.task.slot) for m in self.members}
        for member in self.members:
            self._gauge.meet(member)
        self._cpu = sum(self._gauge.cpu_time(m) for m in self.members)
        for member in self.members:
            self._logs.metrics[member.task.slot].mark()
        self._cards = self._eyes.cards(self.members)
        for card in self._cards:
            card.mark()

    def _done(self, member: Member) -> int:
        count = self._progress.count(member.task.slot)
        return count.batches or count.steps

    def _warm(self, member: Member) -> bool:
        if self._logs.has_metric:
            return self._logs.metrics[member.task.slot].count > 0
        # 5 batches that each task makes first: caches, allocators, autotuning
        return self._done(member) - self._came[member.task.slot] >= 5

    def enough(self, seconds: float) -> bool:
        """Return whether it says how fast they go: long enough, and with enough from each of them."""
        if self.seconds < seconds:
            return False
        if self._logs.has_metric:
            return all(self._logs.metrics[m.task.slot].count >= 2 for m in self.members)  # numbers of a metric
        return all(self._new(m) >= 10 for m in self.members)  # batches of each task that say how fast it goes

    def _new(self, member: Member) -> int:
        before, after = self._marks[member.task.slot], self._progress.count(member.task.slot)
        return after.batches - before.batches or after.steps - before.steps

    def pace_of(self, member: Member) -> Pace | None:
        """Return how fast one task goes in it."""
        slot = member.task.slot
        if not self.began:
            return None
        if self._logs.has_metric:
            return self._logs.metrics[slot].pace()
        return between(self._marks[slot], self._progress.count(slot))

    def together(self) -> Pace | None:
        """Return how fast they go together."""
        return together(self.pace_of(m) for m in self.members)

    def busy(self) -> float | None:
        """Return the mean busy share of the devices in it, None where that of one is not known."""
        shares = [card.mean_busy() for card in self._cards]
        known = [share for share in shares if share is not None]
        return sum(known) / len(known) if known and len(known) == len(shares) else None

    def cores(self) -> float | None:
        """Return the CPUs that they used, as long as all of them run."""
        if not self.began or self.seconds <= 0:
            return None
        return max(0.0, sum(self._gauge.cpu_time(m) for m in self.members) - self._cpu) / self.seconds
