"""What faster or unattended copies to the device would buy.

A step has two lanes: what the host does itself, and what the device does. A copy that blocks joins them: the host waits
until the device has done all before it, and the device has nothing to do until the host has queued more. Copied from
page-locked memory and without waiting, the lanes run beside each other, as far as nothing else joins them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputune.core.figures import TINY, mean
from gputune.core.finding import Speedup
from gputune.features import Copy, Features, Loader, Process
from gputune.model.pcie import USABLE, rates
from gputune.model.prediction import ERROR, Outlook
from gputune.model.workload import device_time, device_work, step_cpu_of

BESIDE = 0.5  # of a copy that runs beside the queueing of kernels, where the loop waits for the device once a step
SYNCED = 0.02  # of the loop waiting for the device elsewhere: then the lanes are joined once a step in any case
ASKED = 0.5  # of the bytes of a place without waiting: then most of it is right already
NOTABLE = 0.03  # of the loop held by such copies: below it, there is nothing to win
FASTER = (1.5, 2.0, 4.0)  # times, at the least, likely, at best: a copy from page-locked memory, of an unknown link
SURE = 0.5  # of what is saved: waits for the device that no span shows (a masked index) may take the rest


@dataclass(frozen=True, slots=True)
class CopyStep:
    """One step of the loop, in s: how long it takes, and the parts of it."""

    step: float
    copying: float  # the host is held by copies
    moving: float  # what they take on the link alone
    syncing: float  # the host is held by something else that waits for the device
    device: float  # kernels
    least: float  # the loader makes no more than one batch in this time, beside what the host computes
    alone: float  # the same if it had the CPUs for itself
    most: float | None = None  # the same with all gaps in them, by the device's clock; None where it did not tell
    measured: bool = False  # `moving` and `device` are of the device's own clock, where it had no gaps

    def at_worst(self, faster: float) -> float | None:
        """Return how long a step takes so if no gap between kernels goes that may be none; None without a clock.

        Where the kernels were measured by themselves, their gaps are none.
        """
        device = self.device if self.measured else self.most
        return None if device is None else replace(self, device=device).then(faster, unattended=True)

    def at_best(self, faster: float) -> float:
        """Return how long a step takes so if the loader and the host are not in each other's way."""
        return replace(self, least=self.alone).then(faster, unattended=True)

    def then(self, faster: float, *, unattended: bool) -> float:
        """Return how long a step takes with copies `faster` times as fast, and `unattended`: nobody waits for them."""
        saved = self.moving * (1 - 1 / faster)
        if not unattended:
            return max(self.least, self.step - saved, TINY)
        if self.syncing >= SYNCED * self.step:  # what the host does beside the copy is at most to queue the kernels
            return max(self.least, self.step - saved - BESIDE * self.moving / faster, TINY)
        apart = max(self.step - self.copying, self.device + self.moving / faster)
        return max(self.least, min(self.step, apart), TINY)


def lanes(run: Features, process: Process, copies: Sequence[Copy], pinned_at: float = 0.0) -> CopyStep | None:
    """Return a step of a process as these copies see it, None where there is none or no device was measured.

    With `pinned_at` (B/s) a thread pins the batches from then on, and none comes faster than that.
    """
    steps = process.steps
    known = bool(process.works) or any(d.busy is not None for d in run.devices)
    if not steps or process.loop <= 0 or not known:
        return None
    step, syncing = process.loop / steps, process.read_waits / steps
    copying = min(step, sum(c.seconds for c in copies) / steps)
    found = [Outlook(run, process, x) for x in process.loaders if x.training and x.num_workers]
    outlooks = [(outlook, _computing(outlook.loader, copying + syncing)) for outlook in found if outlook.known]
    moving = min(copying, sum(c.size / c.fastest for c in copies if c.fastest) / steps)
    timed, device = process.device_step, device_time(run, process, step)
    if timed is not None and timed.copying > 0:  # of all copies there; those in question have their share of the bytes
        moving = min(copying, timed.copying * sum(c.size for c in copies) / max(1, sum(c.size for c in process.copies)))
    if process.kernels is not None:
        device = device_work(run, process, step)
    elif process.works:  # timed from batch to batch on the device's clock: the copies are a part of that
        device = min(max(0.0, device - moving), device_work(run, process, step))
    return CopyStep(
        step=step,
        copying=copying,
        moving=moving,
        syncing=syncing,
        device=device,
        least=max((outlook.fastest(pinned_at, computing) for outlook, computing in outlooks), default=0.0) / steps,
        alone=max((outlook.fastest(pinned_at) for outlook, _ in outlooks), default=0.0) / steps,
        most=max(0.0, timed.whole - timed.starved - timed.copying) if timed is not None else None,
        measured=process.kernels is not None,
    )


def _computing(loader: Loader, held: float) -> float:
    """Return the CPU s of a step beside `held` s of copies and waits, in which a thread may spin."""
    return max(0.0, min(step_cpu_of(loader), mean(loader.steps)) - held)


@dataclass(frozen=True, slots=True)
class Held:
    """Copies of one kind that hold up a process's training, and a step of it as they see it."""

    process: Process
    copies: tuple[Copy, ...]
    lanes: CopyStep

    @property
    def worst(self) -> Copy:
        """Return those of the place that takes most time."""
        return max(self.copies, key=lambda copy: copy.seconds)

    @property
    def share(self) -> float:
        """Return the share of the loop for which they hold it."""
        return self.lanes.copying / self.lanes.step

    @property
    def size(self) -> float:
        """Return their B a step."""
        return sum(c.size for c in self.copies) / max(1, self.process.steps)

    @property
    def evidence(self) -> dict[str, float]:
        """Return the numbers that every finding about such copies rests on."""
        return {
            "share": self.share,
            "bytes_per_step": self.size,
            "copy_s": self.lanes.copying,
            "link_s": self.lanes.moving,
            "device_s": self.lanes.device,
        }


def held(run: Features, process: Process, copies: Sequence[Copy], pinned_at: float = 0.0) -> Held | None:
    """Return how these copies hold a process up, None where they do not, or where that cannot be told."""
    step = lanes(run, process, copies, pinned_at)
    if step is None or not copies or step.copying < NOTABLE * step.step:
        return None
    return Held(process, tuple(copies), step)


def times_faster(run: Features, moving: float, size: float) -> tuple[float, float, float]:
    """Return how many times as fast copies from page-locked memory are: at the least, likely and at best.

    `moving`: the s that copies of `size` B take on the link now. At best what the link carries, likely halfway there
    (on a scale of times) from what is usual: a virtual machine may make its link up.
    """
    links = [rates(device.link)[0] for device in run.devices if device.link is not None]
    if not links or not min(links) or not moving or not size:
        return FASTER
    least, usual, _ = FASTER
    most = max(1.0, USABLE * min(links) * moving / size)
    return min(least, most), min(math.sqrt(usual * most), most), most


def beside(step: CopyStep, then: float, best: float, least: float | None = None) -> Speedup:
    """Return what it buys that nobody waits for copies: steps become `then` s long, `best` at best.

    The low end is what is sure of it: steps of `least` s where both lanes were measured, or are known to take no
    longer; else half of it, for the host's lane may hold a wait that no span shows.
    """
    now = step.step
    sure = least if least is not None and step.measured else min(least or now, now - SURE * (now - then))
    ratios = sorted((now / sure * (1 - ERROR), now / then, now / best * (1 + ERROR)))
    return Speedup(low=ratios[0], likely=ratios[1], high=ratios[2])
