"""What is read of a device through NVML: each field with its beat, its unit conversion and what it may plausibly be.

Runs in the NVML child only (`gputune/nvml/child.py`): importing pynvml costs 25 ms and belongs to no other process.
Units are converted here: NVML speaks of MHz, mW, mJ, KB/s and per cent. Sources: NVML API reference,
<https://docs.nvidia.com/deploy/nvml-api/>, and nvidia-ml-py's pynvml.py.

Over 300 lines: one short function for each field, and the table of them at the end.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pynvml

Value: TypeAlias = "tuple[str, float]"
Process: TypeAlias = "tuple[int, int | None]"  # pid and its memory on the device, B
MHZ = 1e6
UNIFIED = ("GB10", "Orin", "Thor", "Xavier")  # parts whose GPU has no memory of its own; NVML gives no figure there
PID_MAX = 2**22  # PID_MAX_LIMIT of Linux; nvidia-ml-py 12.535.77 has a struct 8 bytes too long
SUCCESS, NOT_FOUND = 0, 6
CONSTANT = 30.0  # s between readings of what hardly ever changes
PCIE_SENT, PCIE_RECEIVED = 197, 198  # NVML_FI_DEV_PCIE_COUNT_TX_BYTES and _RX_BYTES: counters, and no 20 ms of waiting


class NonsenseError(Exception):
    """NVML answered SUCCESS with a value that cannot be."""


class UnsupportedError(Exception):
    """The device has no such field, as found without asking NVML."""


@dataclass(slots=True)
class DeviceFields:
    """One device, and what its fields remember between two readings."""

    index: int
    handle: Any
    name: str
    uuid: str
    minor: int
    mig: bool
    instances: tuple[str, ...] = ()  # UUIDs of its MIG instances
    gpm: "Gpm | None" = None
    pcie: tuple[float, int, int] | None = None  # when, and the counters, B
    pcie_counts: bool = True  # it has those counters
    pcie_turn: int = 0
    seen: int = 0  # time stamp of the newest SM sample
    processes: list[Process] = field(default_factory=list)
    shares: dict[int, float] | None = None  # pid to SM share; None where that cannot be measured
    rest: tuple[int, int | None] = (0, None)  # total and reserved memory as last told, B
    rest_due: float = 0.0
    missing: set[str] = field(default_factory=set)  # functions that this library or device lacks


# The most that each metric can be. Seen in the field: 17179869184 GiB of memory and power of 4 MW, both with SUCCESS.
LIMITS = {
    "gpu.busy": 1.0,
    "gpu.memory.used": 2.0**42,
    "gpu.memory.total": 2.0**42,
    "gpu.memory.reserved": 2.0**42,
    "gpu.power": 5_000.0,
    "gpu.power.limit": 5_000.0,
    "gpu.power.limit.default": 5_000.0,
    "gpu.energy": 2.0**53,
    "gpu.clock.sm": 10e9,
    "gpu.clock.sm.max": 10e9,
    "gpu.clock.memory": 50e9,
    "gpu.temperature": 150.0,
    "gpu.pcie.gen": 9.0,
    "gpu.pcie.gen.max": 9.0,
    "gpu.pcie.width": 32.0,
    "gpu.pcie.width.max": 32.0,
    "gpu.pcie.tx": 1e12,
    "gpu.pcie.rx": 1e12,
    "gpu.ecc": 2.0**40,
    "gpu.capability": 99.0,
    "gpu.compute.mode": 9.0,
    "gpu.sm.active": 1.001,
    "gpu.tensor.active": 1.001,
    "gpu.dram.active": 1.001,
}


def checked(values: Iterable[Value]) -> list[Value]:
    """Return the values, or raise NonsenseError for one that cannot be."""
    kept = list(values)
    for metric, value in kept:
        if not 0 <= value <= LIMITS.get(metric, float("inf")):
            raise NonsenseError(f"{metric} is said to be {value:g}")
    return kept


def busy(card: DeviceFields) -> list[Value]:
    """Share of the last sample period (1/6 to 1 s, by product) with at least one kernel running; not occupancy."""
    return [("gpu.busy", pynvml.nvmlDeviceGetUtilizationRates(card.handle).gpu / 100)]


def memory(card: DeviceFields) -> list[Value]:
    """Memory in use by processes, what the driver reserves, and the total; version 2 tells the first two apart."""
    info, reserved = _memory_info(card)
    if info is None:
        total = _host_memory()
        used = sum(taken or 0 for _, taken in card.processes)
        return [("gpu.memory.used", float(used)), ("gpu.memory.total", float(total))]
    if info.used > info.total:
        raise NonsenseError(f"{info.used} B in use of {info.total} B")
    values = [("gpu.memory.used", float(info.used))]
    rest = (info.total, reserved)
    if rest != card.rest or time.monotonic() > card.rest_due:
        card.rest, card.rest_due = rest, time.monotonic() + CONSTANT
        values.append(("gpu.memory.total", float(info.total)))
        if reserved is not None:
            values.append(("gpu.memory.reserved", float(reserved)))
    return values


def _memory_info(card: DeviceFields) -> tuple[Any, int | None]:
    """Return NVML's answer and the reserved bytes; no answer on a part that shares the host's memory."""
    try:
        if "memory_v2" not in card.missing:
            try:
                info = pynvml.nvmlDeviceGetMemoryInfo(card.handle, version=pynvml.nvmlMemory_v2)
            except pynvml.NVMLError as reason:
                if reason.value not in {
                    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
                    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
                    pynvml.NVML_ERROR_NOT_SUPPORTED,
                }:
                    raise
                card.missing.add("memory_v2")
            else:
                return info, int(info.reserved)
        return pynvml.nvmlDeviceGetMemoryInfo(card.handle), None
    except pynvml.NVMLError_NotSupported:
        if any(part in card.name for part in UNIFIED):
            return None, None
        raise


def _host_memory() -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    return int(line.split()[1]) * 1024


def power(card: DeviceFields) -> list[Value]:
    """Mean power of the last second (Ampere and later); A100 and H100 look at a quarter of that time only."""
    return [("gpu.power", pynvml.nvmlDeviceGetPowerUsage(card.handle) / 1e3)]


def energy(card: DeviceFields) -> list[Value]:
    """Energy since the driver was loaded."""
    return [("gpu.energy", pynvml.nvmlDeviceGetTotalEnergyConsumption(card.handle) / 1e3)]


def clock(card: DeviceFields) -> list[Value]:
    """SM clock now."""
    return [("gpu.clock.sm", pynvml.nvmlDeviceGetClockInfo(card.handle, pynvml.NVML_CLOCK_SM) * MHZ)]


def memory_clock(card: DeviceFields) -> list[Value]:
    """Memory clock now."""
    return [("gpu.clock.memory", pynvml.nvmlDeviceGetClockInfo(card.handle, pynvml.NVML_CLOCK_MEM) * MHZ)]


def clock_max(card: DeviceFields) -> list[Value]:
    """Highest SM clock of the product."""
    return [("gpu.clock.sm.max", pynvml.nvmlDeviceGetMaxClockInfo(card.handle, pynvml.NVML_CLOCK_SM) * MHZ)]


def throttle(card: DeviceFields) -> list[Value]:
    """Bit mask of what holds the clocks down; called throttle reasons before NVML 12.2."""
    if "events" not in card.missing:
        try:
            return [("gpu.throttle", float(pynvml.nvmlDeviceGetCurrentClocksEventReasons(card.handle)))]
        except (pynvml.NVMLError_FunctionNotFound, AttributeError):
            card.missing.add("events")
    return [("gpu.throttle", float(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(card.handle)))]


def temperature(card: DeviceFields) -> list[Value]:
    """Temperature of the die."""
    return [("gpu.temperature", float(pynvml.nvmlDeviceGetTemperature(card.handle, pynvml.NVML_TEMPERATURE_GPU)))]


def capability(card: DeviceFields) -> list[Value]:
    """Compute capability: 8.6 is major 8, minor 6. Tensor cores came with 7.0."""
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(card.handle)
    return [("gpu.capability", major + minor / 10)]


def compute_mode(card: DeviceFields) -> list[Value]:
    """Who may compute on it: 0 all, 2 nobody, 3 one process at a time (1 is an older form of it)."""
    return [("gpu.compute.mode", float(pynvml.nvmlDeviceGetComputeMode(card.handle)))]


def power_limit(card: DeviceFields) -> list[Value]:
    """Power that the device is held to."""
    return [("gpu.power.limit", pynvml.nvmlDeviceGetEnforcedPowerLimit(card.handle) / 1e3)]


def power_limit_default(card: DeviceFields) -> list[Value]:
    """Power that the device is held to as it was built; not every device can tell, so it is a field of its own."""
    return [("gpu.power.limit.default", pynvml.nvmlDeviceGetPowerManagementDefaultLimit(card.handle) / 1e3)]


def link(card: DeviceFields) -> list[Value]:
    """Read generation and lanes of the PCIe link now (lower while the device idles) and at most."""
    return [
        ("gpu.pcie.gen", float(pynvml.nvmlDeviceGetCurrPcieLinkGeneration(card.handle))),
        ("gpu.pcie.width", float(pynvml.nvmlDeviceGetCurrPcieLinkWidth(card.handle))),
        ("gpu.pcie.gen.max", float(pynvml.nvmlDeviceGetMaxPcieLinkGeneration(card.handle))),
        ("gpu.pcie.width.max", float(pynvml.nvmlDeviceGetMaxPcieLinkWidth(card.handle))),
    ]


def traffic(card: DeviceFields) -> list[Value]:
    """PCIe traffic: mean since the last reading where the device counts it, else over NVML's 20 ms of waiting.

    The latter blocks for 40 ms in all, so it is asked only each third time.
    """
    if card.pcie_counts:
        counts = field_values(card, PCIE_SENT, PCIE_RECEIVED)
        if None not in counts:
            sent, received = (int(count or 0) for count in counts)
            before, card.pcie = card.pcie, (time.monotonic(), sent, received)
            if before is None or sent < before[1] or received < before[2]:
                return []
            seconds = card.pcie[0] - before[0]
            return [("gpu.pcie.tx", (sent - before[1]) / seconds), ("gpu.pcie.rx", (received - before[2]) / seconds)]
        card.pcie_counts = False
    card.pcie_turn += 1
    if card.pcie_turn % 3 != 1:  # beats of PCIe traffic between two readings that wait for 40 ms
        return []
    return [
        ("gpu.pcie.tx", pynvml.nvmlDeviceGetPcieThroughput(card.handle, pynvml.NVML_PCIE_UTIL_TX_BYTES) * 1e3),
        ("gpu.pcie.rx", pynvml.nvmlDeviceGetPcieThroughput(card.handle, pynvml.NVML_PCIE_UTIL_RX_BYTES) * 1e3),
    ]


def field_values(card: DeviceFields, *ids: int) -> list[int | None]:
    """Return unsigned 64-bit field values, None for each that the device does not have."""
    try:
        values = pynvml.nvmlDeviceGetFieldValues(card.handle, list(ids))
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return [None for _ in ids]
    return [int(value.value.ullVal) if value.nvmlReturn == SUCCESS else None for value in values]


def latency(card: DeviceFields) -> list[Value]:
    """Return what NVML says that it needed itself to read the energy counter."""
    value = pynvml.nvmlDeviceGetFieldValues(card.handle, [pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION])[0]
    if value.nvmlReturn != SUCCESS:
        raise UnsupportedError("no latency of field values")
    return [("gpu.nvml.latency", max(0.0, value.latencyUsec / 1e6))]


def ecc(card: DeviceFields) -> list[Value]:
    """Uncorrected memory errors since the driver was loaded."""
    errors = pynvml.nvmlDeviceGetTotalEccErrors(
        card.handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    )
    return [("gpu.ecc", float(errors))]


def processes(card: DeviceFields) -> list[Value]:
    """Remember the processes with a compute context on the device; newest struct first, an older one where refused."""
    card.processes = []
    found = [(int(p.pid), _bytes(p.usedGpuMemory)) for p in _running(card) if p.pid]
    if any(pid > PID_MAX for pid, _ in found):
        raise NonsenseError("driver and nvidia-ml-py disagree on the list of processes; a newer nvidia-ml-py may help")
    card.processes = found
    return []


def _running(card: DeviceFields) -> Sequence[Any]:
    for version in ("v3", "v2"):
        if version in card.missing:
            continue
        try:
            found: Sequence[Any] = getattr(pynvml, f"nvmlDeviceGetComputeRunningProcesses_{version}")(card.handle)
        except (pynvml.NVMLError_FunctionNotFound, AttributeError):
            card.missing.add(version)
        else:
            return found
    raise UnsupportedError("this driver lists no processes")


def _bytes(count: int | None) -> int | None:
    return int(count) if count is not None and 0 <= count <= LIMITS["gpu.memory.used"] else None


def shares(card: DeviceFields) -> list[Value]:
    """Remember the SM time of each process in its last sample period, 0 to 1; several samples may be buffered."""
    card.shares = None
    try:
        samples = pynvml.nvmlDeviceGetProcessUtilization(card.handle, card.seen)
    except pynvml.NVMLError as reason:
        if reason.value in {SUCCESS, NOT_FOUND}:  # pynvml raises SUCCESS where nobody had any
            card.shares = {}
            return []
        raise
    newest: dict[int, tuple[int, float]] = {}
    for sample in samples:
        at, share = int(sample.timeStamp), sample.smUtil / 100
        if sample.pid and share <= 1.0 and at >= newest.get(sample.pid, (0, 0.0))[0]:
            newest[int(sample.pid)] = (at, share)
    card.seen = max((at for at, _ in newest.values()), default=card.seen)
    card.shares = {pid: share for pid, (_, share) in newest.items()}
    return []


class Gpm:
    """Two samples of the device's performance counters (Hopper and later), and the metrics between them."""

    IDS = ((2, "gpu.sm.active"), (5, "gpu.tensor.active"), (10, "gpu.dram.active"))  # NVML_GPM_METRIC_*

    def __init__(self, handle: Any) -> None:
        self._old, self._new = pynvml.nvmlGpmSampleAlloc(), pynvml.nvmlGpmSampleAlloc()
        pynvml.nvmlGpmSampleGet(handle, self._old)
        self._at = time.monotonic()
        self._request = pynvml.c_nvmlGpmMetricsGet_t()
        self._request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        self._request.numMetrics = len(self.IDS)
        for place, (number, _) in enumerate(self.IDS):
            self._request.metrics[place].metricId = number

    def read(self, handle: Any) -> list[Value]:
        """Return the shares between the last reading and this one; nothing if that was too short ago."""
        at = time.monotonic()
        if at - self._at < 0.15:  # s; samples closer than 0.1 s give nonsense
            return []
        pynvml.nvmlGpmSampleGet(handle, self._new)
        self._request.sample1, self._request.sample2 = self._old, self._new
        pynvml.nvmlGpmMetricsGet(self._request)
        self._at, self._old, self._new = at, self._new, self._old
        metrics = [(name, self._request.metrics[place]) for place, (_, name) in enumerate(self.IDS)]
        return [(name, metric.value / 100) for name, metric in metrics if metric.nvmlReturn == SUCCESS]


def activity(card: DeviceFields) -> list[Value]:
    """Share of SMs, tensor cores and memory bandwidth in use between two readings."""
    if card.gpm is None:
        if not pynvml.nvmlGpmQueryDeviceSupport(card.handle).isSupportedDevice:
            raise UnsupportedError("no performance counters (GPM)")
        card.gpm = Gpm(card.handle)
        return []
    return card.gpm.read(card.handle)


@dataclass(frozen=True, slots=True)
class Field:
    """One thing to read: its name for people, the seconds between readings, and how."""

    name: str
    beat: float
    read: Callable[[DeviceFields], list[Value]]


FIELDS = (
    Field("utilisation", 0.2, busy),  # its sample period is 1/6 s at best: reading faster repeats the value
    Field("clocks", 2.0, clock),
    Field("throttle reasons", 1.0, throttle),
    Field("processes", 2.0, processes),  # before memory, which on unified parts is their sum
    Field("memory", 1.0, memory),
    Field("SM share of processes", 1.0, shares),
    Field("power", 2.0, power),  # a mean over 1 s
    Field("energy", 5.0, energy),
    Field("SM and tensor activity", 1.0, activity),
    Field("temperature", 5.0, temperature),
    Field("memory clock", 10.0, memory_clock),
    Field("PCIe traffic", 3.0, traffic),
    Field("PCIe link", 5.0, link),  # lower while the device idles: it has to be met at work
    Field("memory errors", 10.0, ecc),
    Field("compute capability", CONSTANT, capability),
    Field("compute mode", CONSTANT, compute_mode),
    Field("highest clock", CONSTANT, clock_max),
    Field("power limit", CONSTANT, power_limit),
    Field("default power limit", CONSTANT, power_limit_default),
    Field("NVML's latency", CONSTANT, latency),
)
