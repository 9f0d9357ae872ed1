"""The job's GPUs through NVML: how busy, how hot, how fast, how full, and what holds them back.

The calls are made by a process of their own (`gputune/nvml/process.py`): one that hangs costs a gap. Only the job's
devices are read: those on which its processes appear, before that those that CUDA_VISIBLE_DEVICES leaves to it, or the
only one there is. `GPUTUNE_ALL_DEVICES=1` reads all.
"""

import os
import time

from gputune.core.hygiene import clean
from gputune.core.sample import Json, Metric, Note, Reading, Sample, Target, Ticks, Unavailable, now
from gputune.core.units import NS
from gputune.nvml.devices import Owners, environment, visible
from gputune.nvml.process import HUNG, Answer, NvmlDevice, Subscription, Unreadable, subscribe

PERIOD = 0.2  # s; the child answers at this beat
LATER = 0.5  # s; nothing is lost in between, and a call that hangs is told of within 3 s all the same
NAME = 96  # characters of a device's name
SLOW, HARDLY = 10.0, 30.0  # s between readings of what changes seldom, hardly ever (`nvml_fields.FIELDS`)

BUSY = Metric("gpu.busy", "ratio", "Share of the last 1/6 to 1 s with a kernel running; not occupancy.", per="gpu")
JOB_BUSY = Metric("gpu.job.busy", "ratio", "SM time of the job's processes, of the driver's last period.", per="gpu")
JOB_MEMORY = Metric("gpu.job.memory", "B", "Device memory of the job's processes.", per="gpu")
XID = Metric("gpu.xid", "1", "Number of an Xid error, at the time it was reported.", per="gpu")
METRICS = (
    BUSY,
    JOB_BUSY,
    JOB_MEMORY,
    XID,
    Metric("gpu.memory.used", "B", "Device memory in use by processes; unified memory on GB10 and Jetson.", per="gpu"),
    Metric("gpu.memory.total", "B", "Device memory; the host's where it is unified.", per="gpu", beat=HARDLY),
    Metric("gpu.memory.reserved", "B", "Device memory that the driver keeps for itself.", per="gpu", beat=HARDLY),
    Metric("gpu.power", "W", "Power, a mean over 1 s on Ampere and later.", per="gpu"),
    Metric("gpu.power.limit", "W", "Power that the device is held to.", per="gpu", beat=HARDLY),
    Metric(
        "gpu.power.limit.default",
        "W",
        "Power that the device is held to if nobody sets another limit.",
        per="gpu",
        beat=HARDLY,
    ),
    Metric("gpu.energy", "J", "Energy since the driver was loaded.", kind="counter", per="gpu"),
    Metric("gpu.clock.sm", "Hz", "SM clock, at one moment.", per="gpu"),
    Metric("gpu.clock.sm.max", "Hz", "Highest SM clock of the product.", per="gpu", beat=HARDLY),
    Metric("gpu.clock.memory", "Hz", "Memory clock, at one moment.", per="gpu", beat=SLOW),
    Metric("gpu.throttle", "1", "NVML's bit mask of what holds clocks down, idling among it.", per="gpu"),
    Metric("gpu.temperature", "degC", "Temperature of the die.", per="gpu"),
    Metric("gpu.pcie.tx", "B/s", "Bytes the device sent over PCIe; a 20 ms sample on older devices.", per="gpu"),
    Metric("gpu.pcie.rx", "B/s", "Bytes the device received over PCIe; a 20 ms sample on older devices.", per="gpu"),
    Metric("gpu.pcie.gen", "1", "PCIe generation of the link now; lower while the device idles.", per="gpu"),
    Metric("gpu.pcie.gen.max", "1", "PCIe generation that device and slot can do.", per="gpu"),
    Metric("gpu.pcie.width", "1", "PCIe lanes in use.", per="gpu"),
    Metric("gpu.pcie.width.max", "1", "PCIe lanes that device and slot have.", per="gpu"),
    Metric(
        "gpu.ecc", "1", "Uncorrected memory errors since the driver was loaded.", kind="counter", per="gpu", beat=SLOW
    ),
    Metric("gpu.capability", "1", "Compute capability, major and minor as in 8.6.", per="gpu", beat=HARDLY),
    Metric(
        "gpu.compute.mode",
        "1",
        "Who may compute: 0 all, 2 nobody, 1 and 3 one process at a time.",
        per="gpu",
        beat=HARDLY,
    ),
    Metric("gpu.sm.active", "ratio", "Share of SMs that were busy since the last reading (GPM).", per="gpu"),
    Metric("gpu.tensor.active", "ratio", "Share of time the SMs did tensor operations (GPM).", per="gpu"),
    Metric("gpu.dram.active", "ratio", "Share of the memory bandwidth in use (GPM).", per="gpu"),
    Metric("gpu.nvml.latency", "s", "What NVML needed itself to read one counter.", per="gpu", beat=HARDLY),
)
BY_NAME = {metric.name: metric for metric in METRICS}
UNSUPPORTED = "is not supported"
MATTERS = frozenset({"utilisation", "memory"})  # fields whose lack is worth a word; many cards lack some of the others


def attach(target: Target) -> Ticks:
    """Share in the NVML process, and follow the job over the devices."""
    subscription = subscribe()
    try:
        job = _Job(target, subscription)
        while True:
            yield job.tick()
    finally:
        subscription.close()


class _Job:
    """The devices as the job uses them."""

    def __init__(self, target: Target, subscription: Subscription) -> None:
        self._target = target
        self._subscription = subscription
        self._everything = target.everything or os.environ.get("GPUTUNE_ALL_DEVICES") == "1"
        self._owners = Owners(target)
        self._devices: dict[int, NvmlDevice] = {}
        self._met: set[int] = set()  # devices on which the job's processes were seen
        self._allowed: set[int] = set()  # devices that CUDA_VISIBLE_DEVICES of a process of the job names
        self._restricted = False  # it was set for at least one process
        self._read: set[int] = set()  # pids whose environment was read
        self._settle_due = 0.0
        self._noted: set[NvmlDevice] = set()
        self._troubles = _Troubles()

    def tick(self) -> list[Reading]:
        """Return what has arrived. Raises Unavailable when NVML cannot be used at all."""
        readings: list[Reading] = []
        for answer in self._subscription.read():
            if answer.fatal:
                raise Unavailable(answer.fatal, hint=answer.hint)
            if answer.devices:
                self._devices = {device.index: device for device in answer.devices}
                self._settle_due = 0.0
                readings.append(Note(-1, {"n": "driver", "cuda": answer.cuda}))
            readings += self._samples(answer)
            readings += self._troubles.take(answer, self._devices)
        at = time.monotonic()
        if self._devices and at >= self._settle_due:
            self._settle_due = at + 1.0  # s between looks for new processes and their environment
            readings += self._choose()
        return readings

    def _samples(self, answer: Answer) -> list[Reading]:
        found: list[Reading] = [
            Sample(BY_NAME[name], answer.t, value, str(index)) for name, index, value in answer.values
        ]
        for index, people in answer.people.items():
            split = self._owners.split(people, self._devices[index].minor) if index in self._devices else None
            if split is None:
                continue
            own, _ = split
            if own:
                self._met.add(index)
            if index in self._subscription.chosen:
                shares = [share for _, _, share in own]
                if people and None not in shares:  # nobody at all: a container, whose processes NVML may not list
                    found.append(Sample(JOB_BUSY, answer.t, min(1.0, sum(s or 0.0 for s in shares)), str(index)))
                memory = [taken for _, taken, _ in own]
                if memory and None not in memory:
                    found.append(Sample(JOB_MEMORY, answer.t, float(sum(m or 0 for m in memory)), str(index)))
        return found + [Sample(XID, answer.t, float(number), str(index)) for index, number in answer.xids if index >= 0]

    def _choose(self) -> list[Reading]:
        """Decide which devices are the job's, and name the new ones."""
        self._look_at_environments()
        if self._everything:
            chosen = set(self._devices)
        elif self._met:
            chosen = self._met & set(self._devices)
        elif self._restricted:
            chosen = self._allowed
        else:
            chosen = set(self._devices) if len(self._devices) == 1 else set()
        self._subscription.choose(tuple(sorted(chosen)))
        new = [self._devices[index] for index in sorted(chosen) if self._devices[index] not in self._noted]
        self._noted.update(new)
        return [_note(device) for device in new]

    def _look_at_environments(self) -> None:
        pids = self._target.pids().keys() | {self._target.root_pid}
        self._read &= pids
        for pid in pids - self._read:
            self._read.add(pid)
            allowed = visible(environment(self._target.proc, pid), self._devices.values())
            if allowed is not None:
                self._restricted = True
                self._allowed.update(allowed)


def _note(device: NvmlDevice) -> Note:
    return Note(
        -1,
        {
            "n": "device",
            "index": str(device.index),
            "name": clean(device.name, NAME),
            "uuid": clean(device.uuid, NAME),
            "mig": device.mig,
            "instances": [clean(uuid, NAME) for uuid in device.instances],
        },
    )


class _Troubles:
    """What cannot be read, as one text that is told again when it changes."""

    def __init__(self) -> None:
        self._now: dict[tuple[int, str], Unreadable] = {}
        self._past: list[tuple[str, str, str]] = []
        self._told = ""

    def take(self, answer: Answer, devices: dict[int, NvmlDevice]) -> list[Reading]:
        """Learn what an answer says, and return a note if there is something new to say."""
        if answer.devices:  # a new start: only what hung stays out
            for key in [key for key, trouble in self._now.items() if trouble.why != HUNG or key[0] < 0]:
                self._over(key)
            for device in answer.devices:
                if device.mig:
                    self._now[device.index, "MIG"] = Unreadable(device.index, "MIG", MIG, 0)
        for trouble in answer.troubles:
            key = trouble.device, trouble.field
            if not trouble.why:
                self._over(key)
            elif self._worth(trouble, devices):
                self._now.setdefault(key, trouble)
        lacks = [*(_lacking(trouble) for trouble in self._now.values()), *self._past]
        told = "; ".join(f"{what} {why}" for _, what, why in lacks)
        if told == self._told:
            return []
        self._told = told
        rows: Json = [list(row) for row in lacks]
        return [Note(-1, {"n": "unavailable", "probe": "nvml", "why": told, "lacks": rows, "t": now()})]

    def _worth(self, trouble: Unreadable, devices: dict[int, NvmlDevice]) -> bool:
        if not trouble.why.startswith(UNSUPPORTED):
            return True
        mig = trouble.device in devices and devices[trouble.device].mig
        return trouble.field in MATTERS and not (mig and trouble.field == "utilisation")

    def _over(self, key: tuple[int, str]) -> None:
        trouble = self._now.pop(key, None)
        if trouble is not None and trouble.since:
            field, what, why = _lacking(trouble)
            # 4 troubles that are over and still told
            self._past = [*self._past, (field, what, f"{why} until {_clock(now())}")][-4:]


MIG = "is in MIG mode: its utilisation is not measurable"


def _lacking(trouble: Unreadable) -> tuple[str, str, str]:
    """Return the field, empty where it is all of a device or NVML itself, what that is of which device, and why."""
    field = "" if trouble.field == "MIG" else trouble.field
    what = "NVML" if trouble.device < 0 else f"device {trouble.device}"
    if field:
        what = f"{field} of {what}"
    why = clean(trouble.why, 200)
    return field if trouble.device >= 0 else "", what, f"{why}, since {_clock(trouble.since)}" if trouble.since else why


def _clock(t: int) -> str:
    """Return the time of day of a moment of the monotonic clock (ns)."""
    return time.strftime("%H:%M:%S", time.localtime(time.time() - (now() - t) / NS))
