"""The beat: calls every probe when it is due, each alone and timed, and hands what they read to one sink.

A probe that cannot work here is named with its reason; one that fails is retired and named; neither ever stops another
probe or the beat. A probe that may come back declares `RETRY`, the seconds after which it is tried again.

A run that has just begun is looked at more closely: a probe with `LATER` has that for its period once the run is
`YOUNG` seconds old. Periods keep their phase, so what is due once a second is due on the same tick: wake-ups that do
next to nothing and one that does all cost less than as many that do a part each, for each must warm its caches again.
Beats on which nothing is due are slept through.
"""

import math
import os
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gputune.core import plugins
from gputune.core.sample import Metric, Reading, Sample, Target, Ticks, Unavailable, now
from gputune.host.procfs import CLOCK_TICKS, children_of, read_bytes, stat_of
from gputune.host.tree import Tree

OWN = Metric("gputune.cpu", "cores", "CPU that the recorder and its child processes used, not the supervisor.")
METRICS = (OWN,)
ROOM = "gputune.probes"
YOUNG = 10.0  # s; a run of three seconds has samples enough, and a mean over minutes loses nothing
OWN_BEAT = 5.0  # s between readings of our own cost
ASK = 1.0  # s between questions whether the run is over where a descriptor would have told us


@dataclass(slots=True)
class Cost:
    """What one probe has cost so far: seconds of this thread's CPU, its set-up included."""

    ticks: int = 0
    cpu: float = 0.0


@dataclass(slots=True)
class _Slot:
    """One probe and when it is due next, in seconds of the monotonic clock."""

    name: str
    cost: Cost
    ticks: Ticks | None = None
    period: float = 0.0
    later: float = 0.0
    due: float = 0.0
    retry: float | None = None
    off: bool = False
    troubled: bool = False


class Ticker:
    """Reads `target` through `probes` (all of them), `hz` times a second, and gives each tick's readings to `sink`.

    With a `tree` it is refreshed here, and told by what the probes read who trains and who loads.

    `unavailable`, `hints` and `failed` say by probe why nothing comes from it, `cost` what it has cost, `missed` how
    many beats were skipped because an earlier one took too long.
    """

    def __init__(
        self,
        target: Target,
        *,
        hz: float,
        sink: Callable[[list[Reading]], None],
        tree: Tree | None = None,
        probes: Sequence[str] | None = None,
    ) -> None:
        self.unavailable: dict[str, str] = {}
        self.hints: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.missed = 0
        self._target = target
        self._period = 1 / hz
        self._sink = sink
        self._tree = tree
        self._tree_due = 0.0
        self._began = time.monotonic()
        self._slots = [_Slot(name, Cost()) for name in (plugins.names(ROOM) if probes is None else probes)]
        self._constant: list[_Slot] = []  # those that are due on every tick
        self._soonest = 0.0  # when the first of the others is due
        self._young = True
        self._dues: dict[float, float] = {}  # by period: when what is done on this tick is due again
        self._clock = 0.0  # CPU time of this thread when the last probe was done
        self._own = _Own(target)

    @property
    def cost(self) -> dict[str, Cost]:
        """Return what each probe has cost so far."""
        return {slot.name: slot.cost for slot in self._slots}

    @property
    def own_cpu(self) -> float:
        """Return the mean number of cores that gputune used since the ticker was made."""
        return self._own.mean()

    def tick(self, *, everything: bool = False) -> None:
        """Read every probe that is due, or every one of them: the last tick of a run asks for `everything`."""
        at = time.monotonic()
        soon = at + self._period / 2
        self._young = at < self._began + YOUNG
        self._dues.clear()
        if self._tree is not None and (everything or soon >= self._tree_due):
            # 0.5 s between looks for new processes; their CPU time is counted from their start all the same
            # 2.0 s, when the run is no longer young
            beat = 0.5 if self._young else 2.0
            self._tree_due = self._next(beat, at)
            self._tree.refresh()
        readings: list[Reading] = []
        self._clock = time.thread_time()
        if everything or soon >= self._soonest:
            for slot in self._slots:
                if (everything or soon >= slot.due) and not slot.off:
                    readings += self._read(slot, at)
            self._constant = [slot for slot in self._slots if not slot.due and not slot.off]
            self._soonest = min((slot.due for slot in self._slots if slot.due and not slot.off), default=math.inf)
        else:
            for slot in self._constant:
                readings += self._read(slot, at)
        if at >= self._own.due:
            readings += self._own.read(at)
        if readings:
            if self._tree is not None:
                self._tree.learn(readings)
            self._sink(readings)

    def run(self, until: Callable[[], bool], *, wakeup: int | None = None) -> None:
        """Tick until `until()` is true; it is asked after every beat.

        With `wakeup`, a descriptor, it is asked at once when that is readable, and else about once a second.
        Beats have absolute deadlines, so they do not drift; one that is late by a whole period is skipped, and where a
        `wakeup` ends the wait those on which nothing is due.
        """
        poll = select.poll()
        if wakeup is not None:
            poll.register(wakeup, select.POLLIN)
        deadline = time.monotonic()
        ask_at = 0.0
        while True:
            if wakeup is None or deadline >= ask_at:
                if until():
                    return
                ask_at = deadline + ASK
            self.tick()
            idle = 0.0 if wakeup is None else self._idle(deadline)
            deadline += self._period + idle
            left = deadline - time.monotonic()
            if left < 0:
                skip = int(-left / self._period) + 1
                self.missed += skip
                deadline += skip * self._period
                left = deadline - time.monotonic()
            if poll.poll(max(0.0, left) * 1000):
                if until():
                    return
                deadline -= idle
                time.sleep(max(0.0, deadline - time.monotonic()))  # no news; it stays readable: look no more this beat

    def _idle(self, deadline: float) -> float:
        """Return the s of the beats after that of `deadline` on which nothing will be due: at most one question's."""
        if self._constant:
            return 0.0
        tree = math.inf if self._tree is None else self._tree_due
        soonest = min(self._soonest, tree, self._own.due, deadline + ASK)
        beats = math.ceil((soonest - deadline) / self._period - 0.5)  # `tick` takes what is due within half a beat
        return max(0, beats - 1) * self._period

    def close(self) -> None:
        """End every probe; whatever one of them raises is its own affair."""
        for slot in self._slots:
            self._retire(slot)

    def _read(self, slot: _Slot, at: float) -> list[Reading]:
        """Return what a probe reads, and count what was used since `_clock` was set as its cost."""
        try:
            if slot.ticks is None:
                self._open(slot)
            readings = next(slot.ticks) if slot.ticks is not None else []
        except Unavailable as reason:
            self.hints[slot.name] = reason.hint
            self._put_off(slot, at, self.unavailable, str(reason))
            readings = []
        except Exception as reason:  # noqa: BLE001 - a probe that fails costs that probe only
            self._put_off(slot, at, self.failed, f"{type(reason).__name__}: {reason}")
            readings = []
        else:
            if slot.troubled:
                slot.troubled = False
                self.unavailable.pop(slot.name, None)
                self.failed.pop(slot.name, None)
            period = slot.period if self._young else slot.later
            slot.due = (self._dues.get(period) or self._next(period, at)) if period else 0.0
        before = self._clock
        self._clock = clock = time.thread_time()
        cost = slot.cost
        cost.ticks += 1
        cost.cpu += clock - before
        return readings

    def _next(self, period: float, at: float) -> float:
        """Return when what was done `at` is due again: on a grid that all of the same period share."""
        due = self._began + (int((at - self._began + self._period / 2) / period) + 1) * period
        self._dues[period] = due
        return due

    def _open(self, slot: _Slot) -> None:
        module = plugins.load(ROOM, slot.name)
        slot.period = float(getattr(module, "PERIOD", 0.0))
        slot.later = float(getattr(module, "LATER", slot.period))
        slot.retry = slot.retry or getattr(module, "RETRY", None)
        slot.ticks = module.attach(self._target)

    def _put_off(self, slot: _Slot, at: float, reasons: dict[str, str], why: str) -> None:
        """Retire a probe, for good or until its back-off is over."""
        reasons.setdefault(slot.name, why)
        slot.troubled = True
        self._soonest = 0.0  # of those that are constant it is none any more
        self._retire(slot)
        if slot.retry is None:
            slot.off = True
        else:
            slot.due = at + slot.retry
            slot.retry = min(2 * slot.retry, 60.0)  # s; back-off doubles up to here

    def _retire(self, slot: _Slot) -> None:
        ticks, slot.ticks = slot.ticks, None
        close = getattr(ticks, "close", None)  # an Iterator need not be a generator
        if close is not None:
            try:
                close()
            except Exception as reason:  # noqa: BLE001 - it has ended, however badly
                self.failed.setdefault(slot.name, f"{type(reason).__name__}: {reason}")


class _Own:
    """CPU time of this process, of the children it has waited for, and of those that still run."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._began = self._last = time.monotonic()
        self.due = self._began + OWN_BEAT
        self._first = self._used = self._total()

    def read(self, at: float) -> list[Reading]:
        """Return our own cost since the last reading."""
        self.due = at + OWN_BEAT
        total = max(self._used, self._total())  # a child between its end and its wait() is missing for a moment
        cores = (total - self._used) / (at - self._last)
        self._last, self._used = at, total
        return [Sample(OWN, now(), cores)]

    def mean(self) -> float:
        """Return the mean since the start, in cores."""
        return (max(self._used, self._total()) - self._first) / max(1e-3, time.monotonic() - self._began)

    def _total(self) -> float:
        times = os.times()
        total = time.process_time() + times.children_user + times.children_system
        job = self._target.pids()
        mine = children_of(f"{self._target.proc}/self")
        return total + sum(_cpu_of(f"{self._target.proc}/{pid}/stat") for pid in mine if pid not in job)


def _cpu_of(path: str) -> float:
    stat = stat_of(read_bytes(path))
    return (stat.own + stat.waited) / CLOCK_TICKS if stat is not None else 0.0
