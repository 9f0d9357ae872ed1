"""How much memory a job has left, what counts as growth, and when that will have taken it."""

import math
import signal
from collections.abc import Iterable

from gputune.core.errors import BY_SIGNAL
from gputune.core.figures import MOSTLY
from gputune.features import Allocator, Device, Features, Loader, Machine, Process, Trend

NOTABLE = 32e6  # B grown for sure: allocators and imports move by less
LASTING = 5.0  # s looked at, at the least
KILLED = BY_SIGNAL + signal.SIGKILL  # a shell's status for it: the kernel's, where it counted one for want of memory


def left(machine: Machine) -> tuple[int, int] | None:
    """Return (limit, what is left of it) in B: of the control group where it has less left than the machine.

    None where neither was measured. Page cache that the kernel would give up first counts as left.
    """
    found = []
    if machine.memory_total is not None and machine.memory_free is not None:
        found.append((machine.memory_total, machine.memory_free))
    if machine.memory_limit is not None and machine.memory_limited is not None:
        found.append((machine.memory_limit, max(0, machine.memory_limit - machine.memory_limited)))
    return min(found, key=lambda pair: pair[1], default=None)


def killed(run: Features) -> bool:
    """Return whether the kernel killed this run for want of the host's memory, as far as can be told.

    A batch system at the end of its time, or a person, send the same signal: the kernel counts those that are its own.
    """
    return run.exit_code == KILLED and run.oom_kills[0] > 0


def grows(trend: Trend | None) -> bool:
    """Return whether an amount has grown surely, notably and long enough to be spoken of.

    The pace that is sure has to come to a notable amount by itself: what is allocated when a loop begins stands between
    the first reading and the last one, however flat the rest is.
    """
    return trend is not None and trend.seconds >= LASTING and trend.low * trend.seconds >= NOTABLE


def fits(process: Process, room: float) -> bool:
    """Return whether what grows of a process fills memory that it has asked for before, and `room` holds all of that.

    A buffer of replays, an array that is written bit by bit: it ends where it is full.
    """
    held, mapped = process.memory, process.mapped
    return held is not None and mapped is not None and not grows(mapped) and mapped.last - held.last < room


def used_at_most(run: Features, device: Device) -> int:
    """Return the B of a device that were ever used, less what torch's allocators had only cached; 0 unmeasured."""
    pools = _pools(run, device)
    found = (device.memory_used or 0) - sum(max(0, pool.reserved - pool.peak) for pool in pools)
    return max(0, found, sum(pool.peak for pool in pools))


def held_before(run: Features, device: Device) -> int | None:
    """Return the B of `used_at_most` that do not grow with the batch, None where no allocator tells of the device.

    What is there between two steps at the least, parameters mostly, and what others and contexts take.
    """
    pools = _pools(run, device)
    return used_at_most(run, device) - sum(pool.peak - pool.least for pool in pools) if pools else None


def times_fit(run: Features, device: Device, share: float) -> int:
    """Return how many times the batch keeps within a `share` of a device's memory; 0 where that was not measured.

    What grows with the batch is taken to be all but what was live before the first step, where an allocator tells it.
    """
    pools, used = _pools(run, device), used_at_most(run, device)
    grows_by = sum(pool.peak - pool.least for pool in pools) if pools else used
    if not device.memory_total or not used or used > share * device.memory_total:
        return 0
    return 1 + int((share * device.memory_total - used) / max(1, grows_by))


def _pools(run: Features, device: Device) -> list[Allocator]:
    return [pool for process in run.processes for pool in process.allocators if pool.index == device.index]


def due(process: Process, room: float, growths: Iterable[Trend | None], *, on_device: bool = False) -> float | None:
    """Return the s until all these together have taken `room` B at the pace that is sure, None if they never will.

    A dataset that keeps what it has read grows through the first pass over it and no further. So growth that would not
    reach the end of the memory within the first pass says nothing until it has gone on for as long after it. What
    grows `on_device` in the training process is no such dataset where workers make the batches.
    """
    rate = sum(max(0.0, growth.low) for growth in growths if growth is not None)
    if rate <= 0:
        return None
    when = room / rate
    apart = on_device and all(loader.num_workers for loader in process.loaders if loader.training)
    return when if apart or when < first_pass_left(process) else None


def first_pass_left(process: Process) -> float:
    """Return the s that the first pass over the training data still takes; endless once it is long over, or unknown.

    Of a pass that is over, but takes up more than half of the loop, 0: growth was measured in it.
    """
    found = [_left_of_first(process, x) for x in process.loaders if x.training and x.batches]
    return min(found, default=math.inf)


def _left_of_first(process: Process, loader: Loader) -> float:
    passes = [epoch for epoch in loader.epochs if epoch.batches]
    if not passes:
        return math.inf
    first = passes[0]
    if len(passes) > 1 or first.complete:
        # most of the loop: a trend is that of the later half, which then began within the first pass
        return 0.0 if first.seconds > MOSTLY * process.loop else math.inf
    if not loader.samples_in_dataset or not loader.batch_size:
        return math.inf
    whole = math.ceil(loader.samples_in_dataset / loader.batch_size)
    return max(0, whole - first.batches) * first.seconds / first.batches
