"""How a machine went: readings to curves on one axis of time, of the last minutes and, ever more coarsely, of a day.

The same readings make them wherever they come from: the probes here, or the recording that an agent keeps.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gputune.core.sample import Metric, Reading, Sample
from gputune.core.units import NS
from gputune.feeds.history import GAP
from gputune.feeds.rows import Curve, Past, TaskRow

ROLE_CPU = Metric("cpu.role", "cores", "CPUs that processes of live runs use, by what they do in these.", per="role")
ROLES = ("main", "worker", "other")
SPANS = ((1.0, 300), (20.0, 360), (240.0, 360))  # s of a point, and how many: five minutes, two hours, a day
GAUGES = {
    "gpu.busy": "busy", "gpu.memory.used": "memory", "gpu.power": "power", "gpu.temperature": "temperature",
    "cpu.busy": "cpu", ROLE_CPU.name: "cpu by role", "memory.available": "host memory",
}  # fmt: skip
RATES = {
    "disk.read": "disk read", "disk.write": "disk written", "net.received": "net in", "net.sent": "net out",
}  # fmt: skip
TOPS = {"gpu.memory.total": "memory", "gpu.power.limit": "power", "cpu.allowed": "cpu", "memory.total": "host memory"}
METRICS = (*GAUGES, *RATES, *TOPS)
HELD = 10.0  # s: twice the slowest beat of what is drawn, NVML's temperature
Key = tuple[str, str]  # what is drawn, and of which device or role: "" where there is one


@dataclass(slots=True)
class _Tier:
    """Means of points of `step` s, the last `most` of them; the first is number `first` since the epoch."""

    step: float
    most: int
    first: int = 0
    count: int = 0
    sums: dict[Key, list[float]] = field(default_factory=dict)
    counts: dict[Key, list[int]] = field(default_factory=dict)

    def add(self, key: Key, at: float, value: float) -> None:
        """Add a value to the point of its time; a value older than all points is dropped."""
        number = int(at / self.step)
        if not self.count:
            self.first = number
        self._reach(number)
        place = number - self.first
        if place < 0:
            return
        if key not in self.sums:
            self.sums[key], self.counts[key] = [0.0] * self.count, [0] * self.count
        self.sums[key][place] += value
        self.counts[key][place] += 1

    def _reach(self, number: int) -> None:
        """Make points up to a number, and let go of those that are too old."""
        more = number - (self.first + self.count) + 1
        if more <= 0:
            return
        drop = max(0, self.count + more - self.most)
        new = min(more, self.most)
        self.sums = {key: [*sums, *[0.0] * new][-self.most :] for key, sums in self.sums.items()}
        self.counts = {key: [*counts, *[0] * new][-self.most :] for key, counts in self.counts.items()}
        self.first += drop
        self.count = min(self.most, self.count + more)

    def series(self, key: Key, gaps: Sequence[tuple[float, float]]) -> tuple[float | None, ...]:
        """Return the means of the points that are over; between two readings the former one stands, but in no gap."""
        found: list[float | None] = []
        last, known = None, -HELD
        for k, (total, count) in enumerate(zip(self.sums[key][:-1], self.counts[key][:-1], strict=True)):
            at = (self.first + k) * self.step
            if count:
                last, known = total / count, at
            held = at - known <= HELD and not any(began < at < began + length for began, length in gaps)
            found.append(last if held else None)
        return tuple(found)


class Curves:
    """Builds the past of one machine while its readings come in."""

    def __init__(self) -> None:
        self._tiers = [_Tier(step, most) for step, most in SPANS]
        self._counters: dict[Key, dict[str, tuple[float, float]]] = {}  # instance to when it was read, and what it was
        self._rates: dict[Key, float] = {}  # of all instances, at one moment
        self._tops: dict[Key, float] = {}
        self._read = 0.0
        self._gaps: deque[tuple[float, float]] = deque(maxlen=SPANS[0][1])

    def take(self, readings: Iterable[Reading], clocks: int) -> None:
        """Take the readings of a tick, whose times are ns of a clock that `clocks` ns turn into Unix time."""
        self._rates.clear()
        for reading in readings:
            if isinstance(reading, Sample):
                self._sample(reading, (reading.t + clocks) / NS)
        for key, rate in self._rates.items():
            self._add(key, self._read, rate)

    def _sample(self, sample: Sample, at: float) -> None:
        if self._read and at - self._read > GAP / NS:
            self._gaps.append((self._read, at - self._read))
        self._read = max(self._read, at)
        name = sample.metric.name
        if name in TOPS:
            self._tops[TOPS[name], sample.instance] = sample.value
        elif name in GAUGES:
            key = GAUGES[name], sample.instance
            self._add(key, at, self._tops.get(key, 0.0) - sample.value if name == "memory.available" else sample.value)
        elif name in RATES:
            self._rate((RATES[name], ""), sample, at)

    def _rate(self, key: Key, sample: Sample, at: float) -> None:
        """Count B/s of one disk or interface among those of all."""
        known = self._counters.setdefault(key, {})
        before = known.get(sample.instance)
        known[sample.instance] = (at, sample.value)
        if before is not None and 0 < at - before[0] <= GAP / NS and sample.value >= before[1]:
            self._rates[key] = self._rates.get(key, 0.0) + (sample.value - before[1]) / (at - before[0])

    def _top(self, key: Key) -> float | None:
        """Return the most that a figure can be; what roles use of the CPUs is held against all of them."""
        return self._tops.get(("cpu", "") if key[0] == GAUGES[ROLE_CPU.name] else key)

    def _add(self, key: Key, at: float, value: float) -> None:
        for tier in self._tiers:
            tier.add(key, at, value)

    def past(self, node: str, span: int) -> Past:
        """Return the curves of one of `SPANS`."""
        tier = self._tiers[span]
        began = tier.first * tier.step
        gaps = tuple(gap for gap in self._gaps if sum(gap) > began)
        return Past(
            node=node,
            began=began,
            step=tier.step,
            span=span,
            curves=tuple(
                Curve(what=key[0], whom=key[1], values=tier.series(key, gaps), top=self._top(key)) for key in tier.sums
            ),
            gaps=gaps,
        )


def by_role(tasks: Sequence[TaskRow], t: int) -> list[Reading]:
    """Return what processes of live runs use of the CPUs, by role, as readings of `t`, ns."""
    used = dict.fromkeys(ROLES, 0.0)
    for task in tasks:
        if task.run and task.cpu is not None and task.role in used:
            used[task.role] += task.cpu
    there = {task.role for task in tasks if task.run}
    return [Sample(ROLE_CPU, t, cores, role) for role, cores in used.items() if role in there]
