"""Which devices are the job's, and which of the processes on a device are: NVML shows all devices and everybody."""

import os
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from gputune.core.sample import Target
from gputune.host.procfs import read_bytes
from gputune.nvml.process import NvmlDevice, Person

INITIAL_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of Linux: here pids mean what the driver says
HIDING = frozenset({"", "-1", "NoDevFiles", "void", "none"})  # values that hide every device


def visible(environ: Mapping[str, str], devices: Collection[NvmlDevice]) -> tuple[int, ...] | None:
    """Return the devices that CUDA_VISIBLE_DEVICES leaves to a process, or None where it does not say.

    Takes indices, UUIDs and their beginnings, and MIG instances (their device). As CUDA does, it stops at the first
    entry that names nothing. Indices are CUDA's: they are NVML's only if all devices are alike, or in PCI order.
    """
    text = environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return None
    alike = len({device.name for device in devices}) <= 1 or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    found: list[int] = []
    for entry in (part.strip() for part in text.split(",")):
        if entry in HIDING:
            break
        if entry.isdigit():
            if not alike:
                return None
            indices = [device.index for device in devices if device.index == int(entry)]
        else:
            indices = [device.index for device in devices if _named(entry, device)]
        if len(indices) != 1:
            break
        found += indices
    return tuple(dict.fromkeys(found))


def _named(entry: str, device: NvmlDevice) -> bool:
    """Tell whether a UUID, its beginning, or an instance of `device` is meant (`MIG-GPU-…/1/0` is the old form)."""
    if entry.startswith("MIG-GPU-"):
        return device.uuid == entry.removeprefix("MIG-").partition("/")[0]
    if entry.startswith("MIG-"):
        return any(instance.startswith(entry) for instance in device.instances)
    return device.uuid.startswith(entry)


def environment(proc: Path, pid: int) -> dict[str, str]:
    """Return the environment a process was started with, empty where it may not be read."""
    pairs = (entry.partition(b"=") for entry in read_bytes(f"{proc}/{pid}/environ").split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


class Owners:
    """Tells the job's processes on a device from others, also where the driver's pids are not ours."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._outer: dict[int, frozenset[int]] = {}  # our pid to its pids in other namespaces
        self._holders: dict[int, frozenset[int]] = {}  # minor to the job's processes that hold the device file
        self._holders_due = 0.0
        self._translated = not _initial_namespace(target.proc)

    def split(self, people: Iterable[Person], minor: int) -> tuple[list[Person], list[Person]] | None:
        """Return who of `people` on the device belongs to the job and who does not; None where that is unknown.

        A pid is the job's if it is in the tree, or is a tree member's in another pid namespace. In a container the
        driver may give the host's pids: where as many strangers without a place in /proc are on the device
        as members of the tree hold its file open, they are those. A pid that only happens to be one of the tree's
        is refused if the tree's holders of the device file are others.
        """
        job = self._target.pids()
        names = self._names(job)
        holders = self._holding(minor) if self._translated else frozenset()
        own: list[Person] = []
        rest: list[Person] = []
        for person in people:
            mine = person[0] in names and not (holders and person[0] in job and person[0] not in holders)
            (own if mine else rest).append(person)
        hidden = [p for p in rest if p[0] in job or not (self._target.proc / str(p[0])).exists()]
        if hidden:
            missing = len(self._holding(minor)) - len(own)
            if missing and missing == len(hidden):
                return own + hidden, [person for person in rest if person not in hidden]
            if not own:
                return None
        return own, rest

    def _names(self, job: Collection[int]) -> frozenset[int]:
        """Return every pid by which a member of the tree may be known."""
        for pid in [pid for pid in self._outer if pid not in job]:
            del self._outer[pid]
        for pid in job:
            if pid not in self._outer:
                status = read_bytes(f"{self._target.proc}/{pid}/status")
                _, _, rest = status.partition(b"NSpid:")
                self._outer[pid] = frozenset({pid, *map(int, rest.partition(b"\n")[0].split())})
        return frozenset().union(*self._outer.values())

    def _holding(self, minor: int) -> frozenset[int]:
        at = time.monotonic()
        if at >= self._holders_due:
            self._holders_due = at + 5.0  # s between looks at who holds device files open
            held: dict[int, set[int]] = {}
            for pid in self._target.pids():
                for number in _device_files(self._target.proc / str(pid) / "fd"):
                    held.setdefault(number, set()).add(pid)
            self._holders = {number: frozenset(pids) for number, pids in held.items()}
        return self._holders.get(minor, frozenset())


def _device_files(folder: Path) -> set[int]:
    """Return the N of every /dev/nvidiaN that a process holds open; none where that may not be seen."""
    found: set[int] = set()
    try:
        for entry in os.scandir(folder):
            path = os.readlink(entry.path)  # noqa: PTH115 - hundreds of them
            if path.startswith("/dev/nvidia") and path[11:].isdigit():
                found.add(int(path[11:]))
    except OSError:
        pass  # it has ended, or is somebody else's: what was seen so far counts
    return found


def _initial_namespace(proc: Path) -> bool:
    try:
        return str((proc / "self/ns/pid").readlink()) == INITIAL_NAMESPACE
    except OSError:
        return False
