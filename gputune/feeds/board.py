"""Readings to the rows of a node: the latest value of each column, and of counters the rate."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from gputune.core import plugins
from gputune.core.figures import REASONS
from gputune.core.sample import Json, Metric, Note, Reading, Sample
from gputune.core.units import NS
from gputune.feeds.rows import DeviceRow, DiskRow, LinkState, NetRow, Node, Pressure

PROBES = ("cpu", "disk", "memory", "network", "nvml", "pressure")  # what tells of a machine
MISSED = 2  # times the period of a reading, after which it is none any more
SHORT = NS // 20  # ns; two readings of a counter that are nearer give no rate

GAUGES = {  # metric to the field of a device
    "gpu.busy": "busy",
    "gpu.memory.used": "memory_used",
    "gpu.memory.total": "memory_total",
    "gpu.power": "power",
    "gpu.power.limit": "power_limit",
    "gpu.temperature": "temperature",
    "gpu.clock.sm": "clock",
    "gpu.clock.sm.max": "clock_max",
    "gpu.sm.active": "sm_active",
    "gpu.pcie.rx": "received",
    "gpu.pcie.tx": "sent",
}


class _Value(NamedTuple):
    """What a column was when it was last read; `rate` is per second since the reading before, of counters only.

    It is known until `until`: a probe that reads a constant every half a minute has said it for as long.
    """

    t: int
    value: float
    rate: float | None
    until: int


class Board:
    """The present of one machine. `t` is ns of the monotonic clock of its last reading."""

    def __init__(self) -> None:
        self.t = 0
        self._values: dict[str, dict[str, _Value]] = {}
        self._names: dict[str, str] = {}  # index of a device to its name
        self._uuids: dict[str, str] = {}
        self._unavailable: dict[str, str] = {}

    def take(self, readings: Iterable[Reading]) -> None:
        """Take the readings of one tick; those that tell nothing of the machine are passed over."""
        for reading in readings:
            if isinstance(reading, Sample):
                self._sample(reading)
            elif isinstance(reading, Note) and reading.process < 0:
                self._note(reading.fields)

    def _sample(self, sample: Sample) -> None:
        values = self._values.setdefault(sample.metric.name, {})
        before = values.get(sample.instance)
        rate = None
        if sample.metric.kind == "counter" and before is not None:
            if sample.t - before.t < SHORT:
                return
            rate = max(0.0, sample.value - before.value) / ((sample.t - before.t) / NS)
        until = sample.t + round(MISSED * beat(sample.metric) * NS)
        values[sample.instance] = _Value(sample.t, sample.value, rate, until)
        self.t = max(self.t, sample.t)

    def _note(self, fields: Mapping[str, Json]) -> None:
        if fields.get("n") == "device":
            self._names[str(fields.get("index"))] = str(fields.get("name", ""))
            self._uuids[str(fields.get("index"))] = str(fields.get("uuid", ""))
        elif fields.get("n") == "unavailable":
            probe, why = str(fields.get("probe")), str(fields.get("why", ""))
            self._unavailable.pop(probe, None)
            if why:
                self._unavailable[probe] = why

    def node(self, name: str, link: LinkState, unavailable: Mapping[str, str] | None = None) -> Node:
        """Return the machine as a row; what somebody else knows of it (runs, processes) is left to them."""
        total, available = self._one("memory.total"), self._one("memory.available")
        return Node(
            name=name,
            link=link,
            devices=self._devices(),
            cpus=self._one("cpu.allowed"),
            cpu=self._one("cpu.busy"),
            iowait=self._one("cpu.iowait"),
            cores=tuple(value for _, value in _in_order(self._all("cpu.core"))),
            memory_used=None if total is None or available is None else total - available,
            memory_total=total,
            shm_free=self._one("shm.free"),
            shm_total=self._one("shm.total"),
            pressure=Pressure(cpu=self._stalled("cpu"), io=self._stalled("io"), memory=self._stalled("memory")),
            disks=self._disks(),
            nets=self._nets(),
            unavailable={**self._unavailable, **(unavailable or {})},
        )

    def _devices(self) -> tuple[DeviceRow, ...]:
        known = {metric: self._all(metric) for metric in GAUGES}
        masks = self._all("gpu.throttle")
        found = []
        met = {index for metric in GAUGES for index in self._values.get(metric, ())}
        for index in sorted({*self._names, *met}, key=_rank):
            values = {field: known[metric].get(index) for metric, field in GAUGES.items()}
            held = _held(masks.get(index), values["busy"])
            known_as = {"index": index, "name": self._names.get(index, ""), "uuid": self._uuids.get(index, "")}
            row = {**values, **known_as, "held": held}
            found.append(msgspec.convert(row, DeviceRow))
        return tuple(found)

    def _disks(self) -> tuple[DiskRow, ...]:
        read, written, busy = self._rates("disk.read"), self._rates("disk.write"), self._all("disk.busy")
        names = sorted({*read, *written})
        return tuple(DiskRow(name=n, read=read.get(n), written=written.get(n), busy=busy.get(n)) for n in names)

    def _nets(self) -> tuple[NetRow, ...]:
        received, sent = self._rates("net.received"), self._rates("net.sent")
        return tuple(NetRow(name=n, received=received.get(n), sent=sent.get(n)) for n in sorted({*received, *sent}))

    def _stalled(self, what: str) -> float | None:
        rate = self._rates(f"pressure.{what}").get("")
        return None if rate is None else min(1.0, rate * 1e-6)  # pressure counts µs

    def _one(self, metric: str) -> float | None:
        return self._all(metric).get("")

    def _all(self, metric: str) -> dict[str, float]:
        """Return the instances of a metric that are known: read within twice its period."""
        return {i: v.value for i, v in self._values.get(metric, {}).items() if self.t <= v.until}

    def _rates(self, metric: str) -> dict[str, float]:
        values = self._values.get(metric, {})
        return {i: v.rate for i, v in values.items() if v.rate is not None and self.t <= v.until}


@lru_cache(512)
def beat(metric: Metric) -> float:
    """Return the s between two readings of a metric: as its probe declares, for a recording does not tell."""
    probes = (plugins.load("gputune.probes", name) for name in PROBES)
    declared = (each for probe in probes for each in probe.METRICS if each.name == metric.name)
    return next((each.beat for each in declared), metric.beat)


def _held(mask: float | None, busy: float | None) -> str:
    """Return what holds the clocks of a working device down."""
    if mask is None or busy is None or busy < 0.05:  # of a device: below it, it idles, and nothing holds it back
        return ""
    return ", ".join(word for bit, word in REASONS.items() if int(mask) & bit)


def _rank(index: str) -> tuple[int, str]:
    return (int(index) if index.isdigit() else 1 << 30, index)


def _in_order(values: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(values.items(), key=lambda item: _rank(item[0]))
