"""The part of the gatherer that listens to devices: what only counts while they work, who else is on them, what broke.

Clocks, the reasons that hold them down and the state of the link mean something while a device is busy. Errors count
from the first reading to the last: a device often fails after the last batch that anybody saw.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputune.core.figures import REASONS
from gputune.core.sample import Sample
from gputune.features import PcieLink
from gputune.gathering.mean import Mean

BUSY = 0.05  # a device is at work in this reading: below it, clocks, the link and throttling say nothing
XID = "gpu.xid"
ECC = "gpu.ecc"
ERRORS = frozenset({XID, ECC})

LINK = {  # metric to field of a link; those of the link now are lower while the device idles
    "gpu.pcie.gen": "generation",
    "gpu.pcie.width": "lanes",
    "gpu.pcie.gen.max": "generation_most",
    "gpu.pcie.width.max": "lanes_most",
}
TRAFFIC = frozenset({"gpu.pcie.rx", "gpu.pcie.tx"})  # means since the reading before
ALWAYS = frozenset({"gpu.pcie.gen.max", "gpu.pcie.width.max"})


@dataclass(slots=True)
class Card:
    """What is only meaningful while a device is busy."""

    reasons: dict[int, Mean] = field(default_factory=lambda: {bit: Mean() for bit in REASONS})
    clock: Mean = field(default_factory=Mean)
    busy_now: float = 0.0
    best: dict[str, int] = field(default_factory=dict)  # the best that its link was seen to be
    traffic: dict[str, Mean] = field(default_factory=dict)

    def take(self, name: str, value: float, span: float | None) -> None:
        """Take one reading, which stands for `span` ns."""
        working = self.busy_now > BUSY
        if name == "gpu.busy":
            self.busy_now = value
        elif name == "gpu.clock.sm" and working:
            self.clock.add(value, span)
        elif name == "gpu.throttle" and working:
            for bit, share in self.reasons.items():
                share.add(float(bool(int(value) & bit)), span)
        elif name in TRAFFIC and name not in self.traffic:
            self.traffic[name] = Mean()  # the first one is in part of a time before the loop
        elif name in TRAFFIC:
            self.traffic[name].add(value, span)
        elif name in LINK and (working or name in ALWAYS):
            self.best[LINK[name]] = max(self.best.get(LINK[name], 0), int(value))

    @property
    def throttled(self) -> dict[str, float]:
        """Return each reason that held the clocks down, with its share of the time while busy."""
        return {REASONS[bit]: share.value for bit, share in self.reasons.items() if share.value}

    def rate(self, name: str) -> float | None:
        """Return the mean B/s over its link, None where it was not read over a time within the loop."""
        mean = self.traffic.get(name)
        return mean.value if mean else None

    @property
    def link(self) -> PcieLink | None:
        """Return its link, None where it was not read while it was busy."""
        return PcieLink(**self.best) if all(self.best.get(name) for name in LINK.values()) else None


@dataclass(slots=True)
class Errors:
    """What a device itself reported: the numbers of Xid events, and its count of memory errors."""

    xids: dict[int, int] = field(default_factory=dict)
    first: int | None = None  # uncorrected memory errors at the first reading
    last: int = 0

    def take(self, name: str, value: float) -> None:
        """Take one report."""
        if name == XID:
            self.xids[int(value)] = self.xids.get(int(value), 0) + 1
            return
        if self.first is None or value < self.first:  # a counter that went back began anew
            self.first = int(value)
        self.last = int(value)

    @property
    def risen(self) -> int | None:
        """Return the uncorrected memory errors since the first reading, None where they are not counted."""
        return None if self.first is None else self.last - self.first


class Cards:
    """All devices of the job, by index."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.by_uuid: dict[str, str] = {}  # as CUDA tells them, of devices and of MIG instances
        self.parted: set[str] = set()  # in MIG mode: NVML counts all instances together, as it does processes on them
        self._cards: dict[str, Card] = {}
        self._errors: dict[str, Errors] = {}

    def begin(self) -> None:
        """Forget what was read before the loop began; errors are not forgotten."""
        self._cards = {}

    def fail(self, sample: Sample) -> None:
        """Take an error that a device reported, whenever it was."""
        self._errors.setdefault(sample.instance, Errors()).take(sample.metric.name, sample.value)

    def take(self, sample: Sample, span: float | None) -> None:
        """Take one reading of the loop, which stands for `span` ns."""
        self._cards.setdefault(sample.instance, Card()).take(sample.metric.name, sample.value, span)

    def card(self, index: str) -> Card:
        """Return what is known of a device while it worked."""
        return self._cards.get(index, Card())

    def errors(self, index: str) -> Errors:
        """Return what a device reported."""
        return self._errors.get(index, Errors())

    def indices(self) -> set[str]:
        """Return the devices that were named, or that reported anything."""
        return set(self.names) | set(self._errors)

    def name(self, fields: Mapping[str, object]) -> None:
        """Take a device's name, and the UUIDs of itself and its instances."""
        index, instances = str(fields.get("index")), fields.get("instances")
        self.names[index] = str(fields.get("name"))
        if fields.get("uuid"):
            self.by_uuid[str(fields["uuid"])] = index
        if fields.get("mig"):
            self.parted.add(index)
        for uuid in instances if isinstance(instances, list) else ():
            self.by_uuid["GPU-" + str(uuid).removeprefix("MIG-")] = index
