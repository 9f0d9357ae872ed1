"""How full the memories were with a batch size, what of it grows with the batch, and how large one that fits can be.

Of a device torch's allocators tell what was needed: what tensors held at the peak, and what is in use beside them
(contexts, others). What they had only cached goes to whoever asks. Where none told, what NVML saw in use counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gputune.core.figures import size
from gputune.features import Device, Features, OutOfMemory
from gputune.model.headroom import held_before, used_at_most
from gputune.verdict import exhaustion

FULL = 0.9  # of a memory: above it a longer sample or a fragmented cache is the end
DEVICE = "the device"
ALIGNED = 8  # samples: matrix units want multiples of it


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """The fullest memory with one batch size. `share`: of it that was ever needed; None where none was read.

    `needed`, `before` and `total` are B of a device: what was ever needed, what of that was there before the first
    step, and what it has; None of another memory.
    """

    share: float | None = None
    of: str = DEVICE
    needed: int | None = None
    before: int | None = None
    total: int | None = None

    @property
    def fits(self) -> bool:
        """Return whether there was room to spare, as far as is known."""
        return self.share is None or self.share <= FULL

    def words(self) -> str:
        """Return in a sentence that it was all but full, "" where there was room to spare."""
        return "" if self.fits else f"it filled {self.share or 0:.0%} of the memory of {self.of}"


UNKNOWN = Filled()


def filled(run: Features | None, *, host: bool) -> Filled:
    """Return how full the fullest memory was. Of a host that others have filled only with `host`.

    Sizes above the script's own are told so: that one runs there anyway.
    """
    if run is None:
        return UNKNOWN
    found = [_device(run, device) for device in run.devices if device.memory_used and device.memory_total]
    machine = run.machine
    if host and machine.memory_total and machine.memory_least is not None:
        found.append(Filled(share=1 - machine.memory_least / machine.memory_total, of="this machine"))
    if host and machine.memory_limit and machine.memory_limited_most is not None:
        found.append(Filled(share=machine.memory_limited_most / machine.memory_limit, of="the control group"))
    return max(found, default=UNKNOWN, key=lambda each: each.share or 0.0)


def _device(run: Features, device: Device) -> Filled:
    total, needed = device.memory_total or 1, used_at_most(run, device)
    return Filled(share=needed / total, needed=needed, before=held_before(run, device), total=total)


def largest(tried: Sequence[tuple[int, Filled]]) -> int | None:
    """Return the largest batch size that leaves room to spare on the device, by what those that fit took.

    A straight line through the two largest of them; through one and what it held before its first step, where that is
    known. None where nothing was told, or nothing grows.
    """
    points = sorted((number, each.needed, each) for number, each in tried if each.needed is not None)
    if not points:
        return None
    number, needed, last = points[-1]
    if len(points) > 1:
        slope = (needed - points[-2][1]) / max(1, number - points[-2][0])
    else:
        slope = (needed - last.before) / number if last.before is not None else 0.0
    if slope <= 0:
        return None
    room = FULL * (last.total or 0) - needed
    found = int(number + room / slope)
    return found - found % ALIGNED if found > ALIGNED else found


def ran_out(run: Features) -> OutOfMemory | None:
    """Return how a device's memory ran out in a start, where that ended it; None where it did not."""
    ended = [found for found in run.out_of_memory if exhaustion.ended(run, found)]
    return ended[0] if ended else None


def shortage(found: OutOfMemory) -> str:
    """Return in a few words what was asked for of a device's memory, and who held it."""
    total = f" of its {size(found.total)}" if found.total else ""
    others = f", others {size(found.others)}" if found.others else ""
    return f"{size(found.asked)} more of GPU {found.gpu}, where tensors held {size(found.live)}{total}{others}"
