"""The part of the gatherer that listens to the machine and its devices: means over the training loop."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gputune.core.mounts import Mount
from gputune.core.sample import ATTACHED, Guest, Json, Sample
from gputune.core.units import NS
from gputune.features import COVERED, Device, Lacking, Machine, Neighbour, OutOfMemory, Process, Trend
from gputune.gathering.cards import ERRORS, Cards
from gputune.gathering.mean import Mean
from gputune.gathering.meter import HELD, Meter
from gputune.gathering.sampled import Sampled
from gputune.gathering.stacks import Stacks
from gputune.gathering.storage import RATES, GrowthRate
from gputune.gathering.trend import MIN_READINGS, AmountSeries

LACKS = len(Lacking._fields)
PENDING = 65536  # readings kept back after the last batch: beyond it one of two of each metric stands for both


class HostMeans:
    """Means of samples over the training loop (before it begins, over what there is)."""

    def __init__(self) -> None:
        self._means: dict[tuple[str, str], Mean] = {}
        self._read: dict[tuple[str, str], int] = {}  # ns; when each was read last, before the loop as well
        self._series: dict[tuple[str, str], AmountSeries] = {}
        self._cards = Cards()
        self._meters: dict[str, Meter] = {}
        self._neighbours: dict[int, str] = {}
        self.rates: dict[tuple[str, str], GrowthRate] = {}
        self.rotational: dict[str, bool] = {}  # disk to whether its platters turn
        self.parts: dict[str, frozenset[str]] = {}  # disk to the numbers and names of what lies on it
        self.links: dict[str, float] = {}  # interface to B/s that it can carry each way
        self.largest: dict[str, int] = {}  # interface to the B of the largest packet that it takes (MTU)
        self.limits: dict[str, tuple[float | None, float | None]] = {}  # device to B/s and requests/s it may be read at
        self.mounts: dict[Mount, None] = {}  # in the order in which they were told
        self.unavailable: dict[str, str] = {}  # probe to what it could not read, while it read the rest
        self.lacking: dict[str, tuple[Lacking, ...]] = {}  # probe to the parts of that
        self.handover: float | None = None  # s to take a batch of two small tensors from another process, after the run
        self.driver = 0  # the newest CUDA that it runs (13020 is 13.2), 0 unknown
        self.oom_kills: tuple[int, str] = (0, "")  # how many processes the kernel killed, and of what it counts that
        self._pending: list[Sample] = []
        self._stride = 1  # of the readings of a metric after the last batch, one in so many is kept back
        self._met: dict[tuple[str, str], int] = {}  # how many there were of each
        self._pending_from = 0  # ns; the earliest of them
        self.still = False  # somebody has stopped the training: what is read now says nothing of it
        self._stood = 0  # ns; when it was last seen to
        self._stopped = self._stood_still = (
            0  # ns; when it was stopped last, and for how long in all since the loop began
        )
        self._loop_began = 0
        self._loop_end = 0

    def take(self, sample: Sample) -> None:
        """Take one sample; it counts once a batch after it has shown that the loop still went on."""
        if sample.metric.name in METERED and ":" not in sample.instance:
            self._meters.setdefault(sample.instance, Meter()).take(sample.metric.name, sample.t, sample.value)
        if sample.metric.name in ERRORS:
            self._cards.fail(sample)
            return
        if self.still and sample.metric.kind == "gauge" and sample.metric.name not in SLOW:
            self._stood = max(self._stood, sample.t)
            return
        if self._loop_began and sample.t > self._loop_end:
            self._keep_back(sample)
            return
        self._count(sample)

    def stand(self, t: int, *, still: bool) -> None:
        """Learn that somebody has stopped the training at `t` (ns), or that it goes on."""
        if still and not self.still:
            self._stopped = t
        elif self.still and not still and self._loop_began:
            self._stood_still += max(0, t - max(self._stopped, self._loop_began))
        self.still = still

    def loop(self, t0: int, t1: int) -> None:
        """Learn that the training loop was at work from `t0` to `t1` (ns)."""
        if not self._loop_began:
            self._loop_began = t0
            kept = self._means
            self._means = {}
            for key, mean in kept.items():  # what is read rarely is not thrown away with the start-up
                if key[0] in SLOW:
                    self._means[key] = mean
            self._cards.begin()
            for rate in self.rates.values():
                rate.begin()
        if t1 > self._loop_end:
            self._loop_end = t1
            if self._pending and t1 >= self._pending_from:  # asked at every batch, true once a tick
                due = [sample for sample in self._pending if sample.t <= t1]
                self._pending = [sample for sample in self._pending if sample.t > t1]
                self._pending_from = min((sample.t for sample in self._pending), default=0)
                for sample in due:
                    self._count(sample, self._stride)
                if not self._pending:
                    self._stride, self._met = 1, {}

    def _keep_back(self, sample: Sample) -> None:
        """Keep a reading until a batch shows that the loop still went on; of very many, evenly, one in so many."""
        key = sample.metric.name, sample.instance
        met = self._met.get(key, 0)
        self._met[key] = met + 1
        if met % self._stride:
            return
        if len(self._pending) >= PENDING:
            self._stride *= 2
            self._pending = _every_second(self._pending)
        self._pending_from = min(self._pending_from, sample.t) if self._pending else sample.t
        self._pending.append(sample)

    def _count(self, sample: Sample, readings: int = 1) -> None:
        """Take a reading, which stands for so many."""
        name = sample.metric.name
        span = self._span(sample, readings)
        self._means.setdefault((name, sample.instance), Mean()).add(sample.value, span)
        if name in RATES:
            self.rates.setdefault((name, sample.instance), GrowthRate()).add(sample.t, sample.value)
        if name in CREEPS:
            self._series.setdefault((name, sample.instance), AmountSeries()).add(sample.t / NS, sample.value)
        if name.startswith("gpu.") and ":" not in sample.instance:
            self._cards.take(sample, span)

    def _span(self, sample: Sample, readings: int) -> int | None:
        """Return the ns that a reading stands for: those since the one before it, since the loop began or went on."""
        key = sample.metric.name, sample.instance
        last = self._read.get(key, 0)
        self._read[key] = max(sample.t, last)
        before = max(last, self._loop_began, self._stood if self._stood < sample.t else 0)
        return min(int(HELD * NS) * readings, max(0, sample.t - before)) if before else None

    def note(self, fields: Mapping[str, Json]) -> None:
        """Take a device's or a neighbour's name, or what a probe can no longer read (later wins)."""
        if fields.get("n") == "device":
            self._cards.name(fields)
        elif fields.get("n") == "neighbour":
            self._neighbours[int(str(fields.get("pid")))] = str(fields.get("name"))
        elif fields.get("n") == "disk":
            disk, parts = str(fields.get("disk")), fields.get("parts")
            self.rotational[disk] = fields.get("rotational") is True
            self.parts[disk] = frozenset(map(str, parts)) if isinstance(parts, list) else frozenset()
        elif fields.get("n") == "link":
            self.links[str(fields.get("interface"))] = _number(fields.get("rate")) or 0.0
        elif fields.get("n") == "io.limit":
            self.limits[str(fields.get("device"))] = (_number(fields.get("rate")), _number(fields.get("requests")))
        elif fields.get("n") == "mount":
            told = (str(fields.get(name)) for name in Mount._fields)
            self.mounts[Mount(*told)] = None
        elif fields.get("n") == "driver":
            self.driver = int(str(fields.get("cuda") or 0))
        elif fields.get("n") == "oom_kills":
            self.oom_kills = (int(str(fields.get("count"))), str(fields.get("where")))
        elif fields.get("n") == "unavailable":
            self._unavailable(fields)
        else:
            self._once(fields)

    def _once(self, fields: Mapping[str, Json]) -> None:
        """Take what is said once: of interfaces, and of what is measured after the run."""
        if fields.get("n") == "mtu":
            self.largest[str(fields.get("interface"))] = int(_number(fields.get("mtu")) or 0)
        if fields.get("n") == "handover":
            self.handover = (_number(fields.get("us")) or 0.0) / 1e6 or None

    def _unavailable(self, fields: Mapping[str, Json]) -> None:
        probe, lacks = str(fields.get("probe")), fields.get("lacks")
        self.unavailable[probe] = str(fields.get("why"))
        if not self.unavailable[probe]:
            del self.unavailable[probe]
        rows = lacks if isinstance(lacks, list) else []
        self.lacking[probe] = tuple(
            Lacking(*map(str, row)) for row in rows if isinstance(row, list) and len(row) == LACKS
        )

    def read_limits(self) -> tuple[float | None, float | None]:
        """Return the tightest (B/s, requests/s) at which control groups let the job read from any device."""
        rates = [rate for rate, _ in self.limits.values() if rate is not None]
        requests = [number for _, number in self.limits.values() if number is not None]
        return min(rates, default=None), min(requests, default=None)

    def mean(self, name: str, instance: str = "") -> float | None:
        """Return the mean of a metric, None where it was not measured."""
        mean = self._means.get((name, instance))
        return mean.value if mean else None

    def last(self, name: str, instance: str = "") -> float | None:
        """Return the last value of a metric, None where it was not measured."""
        mean = self._means.get((name, instance))
        return mean.last if mean and mean.count else None

    def trend(self, name: str, instance: str = "", since: int | None = 0, least: int = MIN_READINGS) -> Trend | None:
        """Return how an amount of memory moved over the loop, from `since` (ns) on.

        None with fewer than `least` readings in a half of it, or where it is not known yet from when on it counts.
        """
        series = self._series.get((name, instance))
        if series is None or since is None:
            return None
        return series.trend(max(since, self._loop_began) / NS, self._loop_end / NS, least)

    @property
    def indices(self) -> Mapping[str, str]:
        """Return the numbers of the devices, as NVML counts, by UUID."""
        return self._cards.by_uuid

    def beside(self, found: OutOfMemory) -> OutOfMemory:
        """Return it with what processes that are not the job's held on the device at last: of a whole one."""
        if found.index in self._cards.parted:
            return found  # they may be in another slice
        count = self.last("gpu.others.count", found.index)
        return replace(
            found,
            others=_whole(self.last("gpu.others.memory", found.index)),
            others_count=None if count is None else int(count),
        )

    def least(self, name: str, instance: str = "") -> float | None:
        """Return the lowest value of a metric, None where it was not measured."""
        mean = self._means.get((name, instance))
        return mean.least if mean and mean.count else None

    def most(self, name: str, instance: str = "") -> float | None:
        """Return the highest value of a metric, None where it was not measured."""
        mean = self._means.get((name, instance))
        return mean.most if mean and mean.count else None

    def machine(self, *, ranks: int) -> Machine:
        """Return the host as the job may use it."""
        allowed = self.last("cpu.allowed")
        seen = self.last("cpu.count")
        return Machine(
            cpus=allowed or 1.0,
            cpus_seen=int(seen or allowed or 1),
            busy=self.mean("cpu.busy"),
            job=self.mean("cpu.job"),
            others=self.mean("cpu.others"),
            stolen=self.mean("cpu.stolen"),
            iowait=self.mean("cpu.iowait"),
            memory_total=_whole(self.last("memory.total")),
            memory_free=_whole(self.last("memory.available")),
            memory_least=_whole(self.least("memory.available")),
            memory_limit=_whole(self.last("memory.limit")),
            memory_limited=_whole(self.last("memory.limited")),
            memory_limited_most=_whole(self.most("memory.limited")),
            memory_job=_whole(self.last("memory.job")),
            shm_total=_whole(self.last("shm.total")),
            shm_free=_whole(self.last("shm.free")),
            shm_most=_whole(self.most("shm.free")),
            shm_least=_whole(self.least("shm.free")),
            handover=self.handover,
            ranks=ranks,
            neighbours=self._heavy(),
        )

    def worked(self) -> tuple[float, float]:
        """Return the s that devices ran kernels, and of how many s that is known; sums over them."""
        meters = self._meters.values()
        return sum(meter.worked for meter in meters), sum(meter.known for meter in meters)

    def _heavy(self) -> tuple[Neighbour, ...]:
        """Return the foreign processes that used much CPU during the loop, the heaviest first."""
        found = [
            Neighbour(pid=int(pid), name=self._neighbours.get(int(pid), "unknown"), cores=mean.value or 0.0)
            for (name, pid), mean in self._means.items()
            if name == "cpu.neighbour"
        ]
        return tuple(sorted(found, key=lambda neighbour: -neighbour.cores))

    def devices(self, started: int = 0, until: int = 0) -> tuple[Device, ...]:
        """Return every device that was read, in the order of their indices, of a run from `started` to `until` (ns)."""
        read = {i for name, i in self._means if name.startswith("gpu.") and ":" not in i}  # GPU:PID is a process on it
        indices = read | self._cards.indices()
        return tuple(self._device(index, started, until) for index in sorted(indices, key=lambda i: (len(i), i)))

    def _device(self, index: str, started: int, until: int) -> Device:
        card, errors = self._cards.card(index), self._cards.errors(index)
        meter = self._meters.get(index, Meter())
        whole = index not in self._cards.parted
        others = {pid: value for pid, value in self._others(index).items() if value > 0 and whole}
        return Device(
            index=index,
            name=self._cards.names.get(index, "unknown device"),
            busy=self.mean("gpu.busy", index),
            memory_used=_whole(self.most("gpu.memory.used", index)) if whole else None,
            memory_total=_whole(self.last("gpu.memory.total", index)) if whole else None,
            clock=card.clock.value if self._is_read("gpu.clock.sm", index) else None,
            clock_max=self.last("gpu.clock.sm.max", index),
            throttled=card.throttled if self._is_read("gpu.throttle", index) else {},
            power=self._figure("gpu.power", index),
            power_limit=self.last("gpu.power.limit", index),
            power_default=self.last("gpu.power.limit.default", index),
            temperature=self.most("gpu.temperature", index),
            others=others,
            others_memory=_whole(self.mean("gpu.others.memory", index)) if whole else None,
            jobs_busy=self.mean("gpu.job.busy", index),
            jobs_memory=_whole(self.mean("gpu.job.memory", index)),
            memory=self.trend("gpu.memory.used", index) if whole else None,
            idle=meter.idle(started, until),
            energy=meter.energy(until),
            idle_power=meter.idle_power,
            capability=self.last("gpu.capability", index),
            sm_active=self._figure("gpu.sm.active", index),
            tensor_active=self._figure("gpu.tensor.active", index),
            dram_active=self._figure("gpu.dram.active", index),
            link=card.link,
            received=card.rate("gpu.pcie.rx"),
            sent=card.rate("gpu.pcie.tx"),
            xids=dict(errors.xids),
            ecc=errors.risen,
            coverage=self._coverage(index),
        )

    def _figure(self, name: str, index: str) -> float | None:
        """Return the mean of a device's gauge, None where it was read in a part of the time only in which others were.

        Calls fail one by one: power may be read no more while utilisation still is.
        """
        return self.mean(name, index) if self._is_read(name, index) else None

    def _is_read(self, name: str, index: str) -> bool:
        return self._read_in(index, (name,)) >= COVERED * self._coverage(index)

    def _coverage(self, index: str) -> float:
        """Return the share of the loop in which a device's use was read; where that never was, any gauge of it."""
        return self._read_in(index, ("gpu.busy",) if ("gpu.busy", index) in self._means else ALIVE)

    def _read_in(self, index: str, names: Sequence[str]) -> float:
        """Return the share of the loop in which a device was read, by whichever of these gauges was read most.

        A reading stands for at most `HELD` s, before it and, at the end, after it. Before a loop nothing has to be.
        """
        loop = self._loop_end - self._loop_began - self._stood_still
        keys = [key for name in names if (key := (name, index)) in self._means]
        if loop <= 0 or not keys:
            return 1.0
        after = self._loop_end - max(self._read[key] for key in keys)
        return min(1.0, (max(self._means[key].span for key in keys) + min(HELD * NS, max(0, after))) / loop)

    def _others(self, index: str) -> dict[int, float]:
        """Return the foreign processes of a card: by pid where the probe names them, else together as pid 0."""
        named = {
            int(instance.partition(":")[2]): mean.value or 0.0
            for (name, instance), mean in self._means.items()
            if name == "gpu.other.busy" and instance.partition(":")[0] == index
        }
        together = self.mean("gpu.others.busy", index)
        return named or ({0: together} if together else {})

    def unseen(self, guest: Guest, until: int, stacks: Stacks) -> Process:
        """Return a training process that no guest spoke from: of its time only the stacks know something."""
        frames, samples = stacks.of(guest.pid, everywhere=True)
        wall = max(0, (guest.ended or until) - guest.started) / NS
        told = stacks.sampled(guest.pid) if guest.why == ATTACHED else Sampled()
        network = self.mean("main.network", str(guest.pid)) or 0.0
        return Process(
            pid=guest.pid,
            rank=None,
            wall=wall,
            ledger={span: share * wall for span, share in told.shares(network).items()} or {"step": wall},
            margins=told.margins(network),
            looks=told.looks,
            step_parts=told.steps(),
            inclusive={},
            loop=0.0,
            batches=0,
            samples=0,
            optimizer_steps=0,
            frames=frames,
            stack_samples=told.stacks or samples,
            guest=guest.why or "no guest spoke from inside it",
        )


SLOW = frozenset(
    {
        "cpu.allowed",
        "cpu.count",
        "memory.total",
        "memory.available",
        "memory.limit",
        "memory.limited",
        "memory.job",
        "memory.worker",
        "shm.total",
        "shm.free",
        "gpu.memory.total",
        "gpu.clock.sm.max",
        "gpu.capability",
        "gpu.compute.mode",
        "gpu.power.limit",
        "gpu.power.limit.default",
    }
)


ALIVE = ("gpu.busy", "gpu.memory.used", "gpu.power")  # what is read of a device at every tick, as far as it has it
METERED = frozenset({"gpu.busy", "gpu.power", "gpu.energy"})
CREEPS = frozenset({"memory.main", "memory.mapped", "memory.worker", "gpu.memory.used"})


def _number(value: Json) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _every_second(readings: list[Sample]) -> list[Sample]:
    """Return the first reading of each metric, its third, its fifth, and so on."""
    met: dict[tuple[str, str], int] = {}
    kept: list[Sample] = []
    for sample in readings:
        key = sample.metric.name, sample.instance
        met[key] = met.get(key, 0) + 1
        if met[key] % 2:
            kept.append(sample)
    return kept
