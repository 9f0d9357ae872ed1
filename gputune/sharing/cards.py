"""The cards as the launcher sees them: memory, who holds it, busy shares over a window. By NVML's own process."""

import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gputune.nvml.devices import HIDING, visible
from gputune.nvml.process import MEMORY, Answer, NvmlDevice, subscribe

State = Literal["starting", "there", "none"]
LOOK_S = 0.02  # s between looks, where one waits for an answer
NEARLY_FULL = 0.8  # of its memory in use: from here on it is read as often as can be, for it may be full in a second
ABSENT = "no answer from NVML yet"
DRIVER = Path("/dev/nvidiactl")  # there while it is loaded
MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}  # nvmlComputeMode_t
EXCLUSIVE = frozenset({1, 3})  # one process at a time has a context
PROHIBITED = frozenset({2})


@dataclass(slots=True, eq=False)
class SharedDevice:
    """One device and its last readings. Memory in B, `busy` a share 0 to 1; None where nothing was told yet."""

    device: NvmlDevice
    total: float | None = None
    reserved: float = 0.0
    used: float | None = None
    busy: float | None = None
    capability: float | None = None
    mode: int | None = None  # of computing: MODES
    most_used: float = 0.0  # B, since it was last set
    people: Mapping[int, tuple[int | None, float | None]] = field(default_factory=dict)  # pid to memory and SM share
    heard: float = 0.0  # s, when its processes were last told
    met: float = field(default_factory=time.monotonic)  # s
    _since: float = 0.0
    _sum: float = 0.0
    _count: int = 0

    @property
    def name(self) -> str:
        """Return what people call it."""
        return f"GPU {self.device.index} ({self.device.name})"

    @property
    def told(self) -> bool:
        """Return whether its first readings are there, or will not come."""
        # 3.0 s for the first readings of a device: it is read five times a second
        return self.used is not None or time.monotonic() - self.met > 3.0

    @property
    def mode_name(self) -> str:
        """Return its compute mode as nvidia-smi calls it, nothing where it was not told."""
        return "" if self.mode is None else MODES.get(self.mode, str(self.mode))

    @property
    def room(self) -> float | None:
        """Return the B that processes may take in all; None where it is parted (MIG): NVML tells of the whole card."""
        return None if self.total is None or self.device.mig else self.total - self.reserved

    @property
    def is_nearly_full(self) -> bool:
        """Return whether its memory may end soon."""
        return bool(self.room) and (self.used or 0.0) > NEARLY_FULL * (self.room or 0.0)

    def mark(self) -> None:
        """Begin a window."""
        # 0.35 s after a mark in which the driver's readings are still of before it: its period is 1/6 s, ours 0.2 s
        self._since, self._sum, self._count = time.monotonic() + 0.35, 0.0, 0

    def mean_busy(self) -> float | None:
        """Return the mean busy share since the mark."""
        return self._sum / self._count if self._count else None

    def take(self, name: str, value: float) -> None:
        """Learn one reading."""
        if name == "gpu.busy":
            self.busy = value
            if time.monotonic() >= self._since:
                self._sum += value
                self._count += 1
        elif name == "gpu.memory.used":
            self.used = value
            self.most_used = max(value, self.most_used)
        elif name == "gpu.memory.total":
            self.total = value
        elif name == "gpu.memory.reserved":
            self.reserved = value
        elif name == "gpu.capability":
            self.capability = value
        elif name == "gpu.compute.mode":
            self.mode = int(value)


class SharedDevices:
    """All devices of the machine."""

    def __init__(self) -> None:
        self.state: State = "starting"
        self.why = ABSENT
        self.all: dict[int, SharedDevice] = {}
        self._chosen: tuple[int, ...] = ()
        self._subscription = subscribe()

    def poll(self) -> None:
        """Take what has arrived; never blocks."""
        if self.state == "none":
            return
        for answer in self._subscription.read():
            self._take(answer)
        self._subscription.hasten((MEMORY,) if any(card.is_nearly_full for card in self.all.values()) else ())

    def meet(self, seconds: float) -> None:
        """Wait until it is known whether there are any; not where a driver is loaded, which takes its time."""
        if DRIVER.exists():
            return
        until = time.monotonic() + seconds
        while self.state == "starting" and time.monotonic() < until:
            self.poll()
            time.sleep(LOOK_S)

    def wait(self, seconds: float) -> None:
        """Wait until there are readings of the chosen devices, or it is known that there will be none."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.poll()
            cards = [self.all[index] for index in self._chosen if index in self.all]
            if self.state == "none" or (cards and all(card.used is not None and card.heard for card in cards)):
                return
            time.sleep(LOOK_S)

    def _take(self, answer: Answer) -> None:
        if answer.fatal:
            self.state, self.why = "none", answer.fatal
            return
        if answer.devices:
            for device in answer.devices:
                self.all.setdefault(device.index, SharedDevice(device))
            self.state, self.why = "there", ""
            self.choose(tuple(self.all))
        for name, index, value in answer.values:
            if index in self.all:
                self.all[index].take(name, value)
        for index, people in answer.people.items():
            if index in self.all:
                self.all[index].people = {pid: (memory, share) for pid, memory, share in people}
                self.all[index].heard = time.monotonic()

    def choose(self, indices: tuple[int, ...]) -> None:
        """Have these devices read, and no others."""
        self._chosen = indices
        self._subscription.choose(indices)

    @property
    def hidden(self) -> bool:
        """Return whether CUDA_VISIBLE_DEVICES leaves us none, whatever there is."""
        return os.environ.get("CUDA_VISIBLE_DEVICES", "0").partition(",")[0].strip() in HIDING

    def allowed(self) -> list[SharedDevice]:
        """Return the devices that CUDA_VISIBLE_DEVICES leaves us, in its order; all where it says nothing."""
        seen = visible(os.environ, [card.device for card in self.all.values()])
        return [self.all[index] for index in (seen if seen is not None else sorted(self.all))]

    def of(self, wish: str) -> SharedDevice | None:
        """Return the device that a wish names: its place among those that we may use, its UUID, or a MIG instance's."""
        allowed = self.allowed()
        if wish.isdigit():
            return allowed[int(wish)] if int(wish) < len(allowed) else None
        found = visible({"CUDA_VISIBLE_DEVICES": wish}, [card.device for card in allowed])
        return self.all[found[0]] if found else None

    def emptiest(self, seconds: float) -> SharedDevice | None:
        """Return the device with the most free time and memory over a window of `seconds`; None where there is none."""
        allowed = self.allowed()
        for card in allowed:
            card.mark()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.poll()
            time.sleep(LOOK_S)
        return max(allowed, key=_emptiness, default=None)

    def close(self) -> None:
        """Let go of NVML."""
        self._subscription.close()


def _emptiness(card: SharedDevice) -> tuple[float, int]:
    """Return how much of a device is free: the scarcer of its time and its memory; of equals the first is best."""
    busy = card.mean_busy()
    held = (card.used or 0.0) / card.room if card.room else 0.0
    return round(min(1.0 - (busy or 0.0), 1.0 - held), 2), -card.device.index


def held(card: SharedDevice, pids: Collection[int]) -> tuple[float | None, float | None]:
    """Return the memory (B) and the SM share of these processes on a device; None where the driver does not tell."""
    own = [value for pid, value in card.people.items() if pid in pids]
    if not own:
        return None, None
    memory = [taken for taken, _ in own]
    shares = [share for _, share in own]
    return (
        None if None in memory else float(sum(taken or 0 for taken in memory)),
        None if None in shares else min(1.0, sum(share or 0.0 for share in shares)),
    )
