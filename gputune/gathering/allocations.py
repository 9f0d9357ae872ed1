"""The part of the gatherer that listens to torch's allocator of one process: what is live, and when memory ran out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gputune.core.events import Kind, OomCode, Record
from gputune.core.sample import Json
from gputune.core.units import NS
from gputune.features import Allocator, OutOfMemory, Trend
from gputune.gathering.trend import AmountSeries

WARM_UP = 2  # steps after which gradients and the optimizer's state are there: until then every training grows
DEVICE = 0xFF  # of the code in a record
GOES_ON = frozenset({int(Kind.BATCH), int(Kind.STEP), int(Kind.BACKWARD)})


class ProcessDevice(NamedTuple):
    """A device as one process sees it; `total` B, 0 unknown."""

    uuid: str
    total: int


@dataclass(slots=True)
class _Pool:
    """What was read of the allocator on one device."""

    by_time: AmountSeries = field(default_factory=AmountSeries)
    by_step: AmountSeries = field(default_factory=AmountSeries)  # since memory last ran out, and behind the warm-up
    begun: float | None = None  # the step of the first reading since then
    live: int = 0
    least: int = 0
    reserved: int = 0  # most since memory last ran out, which gives back all that is cached
    peak: int = 0  # as the allocator says, of the whole process

    def take(self, record: Record, done: int) -> None:
        """Take a reading after `done` steps."""
        self.live = record.a
        self.least = min(self.least or record.a, record.a)
        self.reserved, self.peak = max(self.reserved, record.b), max(self.peak, record.d)
        self.by_time.add(record.t0 / NS, record.a)
        self.begun = done if self.begun is None else self.begun
        if done >= self.begun + WARM_UP:
            self.by_step.add(done, record.a)

    def ran_out(self, done: int) -> Trend | None:
        """Return how what is live moved a step until now, and begin anew."""
        # 3 readings in the later half of those before memory ran out: where all rise, that is no chance
        trend = self.by_step.trend(0, done, least=3)
        self.by_step, self.begun, self.reserved = AmountSeries(), None, 0
        return trend


@dataclass(slots=True)
class _Last:
    """The last time that memory ran out, and how often it did."""

    record: Record
    growth: Trend | None
    times: int
    went_on: bool = False


class Allocations:
    """All devices of one process, by the number that CUDA gives them there."""

    def __init__(self) -> None:
        self._cards: dict[int, ProcessDevice] = {}
        self._pools: dict[int, _Pool] = {}
        self._last: _Last | None = None
        self.ran = False  # memory ran out, and whether the training went on then is asked of every record

    def card(self, fields: Mapping[str, Json]) -> None:
        """Take which device a number stands for."""
        if len(self._cards) < 64:  # devices of one process kept
            self._cards[int(str(fields["device"]))] = ProcessDevice(
                str(fields.get("uuid")), int(str(fields.get("total")))
            )

    def reading(self, record: Record, done: int) -> None:
        """Take what is live after `done` steps."""
        self._pools.setdefault(record.code & DEVICE, _Pool()).take(record, done)

    def ran_out(self, record: Record, done: int) -> None:
        """Take that memory ran out, in the step after `done` others."""
        growth = self._pools.setdefault(record.code & DEVICE, _Pool()).ran_out(done)
        self._last = _Last(record, growth, 1 + (self._last.times if self._last else 0))
        self.ran = True

    def heard(self, record: Record) -> None:
        """Learn from any record whether the training went on after memory ran out."""
        last = self._last
        if last is not None and not last.went_on and record.kind in GOES_ON:
            last.went_on = record.t0 > last.record.t0  # a backward pass that it ends is told after it
            self.ran = not last.went_on

    def features(self, indices: Mapping[str, str], since: int, until: int) -> tuple[Allocator, ...]:
        """Return what each device holds, over the loop from `since` to `until` (ns); `indices`: NVML's, by UUID."""
        return tuple(
            Allocator(
                index=self._index(device, indices),
                live=pool.by_time.trend(since / NS, until / NS),
                last=pool.live,
                least=pool.least,
                peak=min(pool.peak, pool.reserved) if pool.reserved else pool.peak,
                reserved=pool.reserved,
            )
            for device, pool in sorted(self._pools.items())
            if pool.live
        )

    def out_of_memory(
        self, indices: Mapping[str, str], places: Mapping[int, str], *, pid: int, rank: int | None
    ) -> OutOfMemory | None:
        """Return the last time that memory ran out, None where it never did. `places`: by the id of a site."""
        last = self._last
        if last is None:
            return None
        record, device = last.record, last.record.code & DEVICE
        index = self._index(device, indices)
        return OutOfMemory(
            gpu=index or str(device),
            index=index,
            pid=pid,
            rank=rank,
            where=places.get(record.c, ""),
            asked=record.a,
            live=record.b,
            reserved=record.d,
            free=record.e,
            total=self._cards.get(device, ProcessDevice("", 0)).total or None,
            expandable=bool(record.code & OomCode.EXPANDABLE),
            growth=last.growth,
            times=last.times,
            went_on=last.went_on,
        )

    def only(self, indices: Mapping[str, str]) -> str:
        """Return NVML's number of the one device that the process uses; empty where that is not known."""
        return self._index(next(iter(self._cards)), indices) if len(self._cards) == 1 else ""

    def _index(self, device: int, indices: Mapping[str, str]) -> str:
        """Return NVML's number of a device; the only one there is where torch does not say which one it uses."""
        uuid = self._cards.get(device, ProcessDevice("", 0)).uuid
        if uuid or len(indices) != 1 or len(self._pools) > 1:
            return indices.get(uuid, "")
        return next(iter(indices.values()))
