"""The thread that `pin_memory=True` puts between the workers and the training: its rate, and what fewer bytes save.

What lies behind it goes with the bytes as well: their way over the link, which the device's step waits for.
"""

from collections.abc import Sequence

from gputune.core.figures import mean
from gputune.core.finding import Speedup
from gputune.features import Copy, Features, Loader, Process
from gputune.model.pcie import USABLE, rates
from gputune.model.prediction import Outlook
from gputune.model.remade import pinned_less
from gputune.model.workload import device_time, device_work

PINNED = 0.5  # of the bytes: a place that copies both kinds is called by what most of them are
PICTURE = frozenset({1, 3, 4})  # channels
SIDE = 8  # pixels, the least side of a picture
NARROWER = {"torch.float64": 0.25, "torch.float32": 0.5, "torch.int64": 0.5}  # of its bytes: float16, int32
AS_BYTES = {"torch.float64": 0.125, "torch.float32": 0.25}  # likewise, of a picture: uint8


def pageable(copies: Sequence[Copy]) -> list[Copy]:
    """Return those from pageable memory."""
    return [copy for copy in copies if copy.pinned < PINNED and copy.size]


def measured_rate(run: Features) -> float:
    """Return the B/s at which threads of this run pin batches, 0 where none does."""
    loaders = (loader for process in run.processes for loader in process.loaders if loader.pins)
    return max((rate_of(loader) for loader in loaders), default=0.0)


def pinning_rate(run: Features, copies: Sequence[Copy]) -> float:
    """Return the B/s at which a thread would pin what is copied from pageable memory now; 0 if not known, or nothing.

    As other batches of the run are pinned, else as fast as these copies are staged.
    """
    found = pageable(copies)
    return (measured_rate(run) or staging_rate(found)) if found else 0.0


def rate_of(loader: Loader) -> float:
    """Return the B/s at which its thread pins batches of a loader, time without a CPU left out; 0 if not known."""
    took = mean(pin.wall - (pin.queued or 0.0) for pin in loader.pins)
    size = loader.batch_bytes or 0
    # A batch of less than 1_000_000 B says nothing of a rate: pinning it is mostly overhead
    return size / took if took and size >= 1_000_000 else 0.0


def staging_rate(copies: Sequence[Copy]) -> float:
    """Return the B/s of copies from pageable memory, which the driver copies to a pinned buffer; 0 if not known.

    That is one thread at the same work, but for the link behind it: pinning is not slower.
    """
    return max((copy.fastest for copy in copies), default=0.0)


def is_picture(shape: Sequence[int]) -> bool:
    """Return whether a tensor holds pictures, by its shape: channels first or last, behind the samples."""
    if len(shape) < len("NCHW"):
        return False
    first, last = shape[-3:], (shape[-1], *shape[-3:-1])
    return any(channels in PICTURE and min(sides) >= SIDE for channels, *sides in (first, last))


def left(loader: Loader, *, as_bytes: bool) -> float:
    """Return the share of a batch's bytes that is left in narrower types; of pictures `as_bytes` where wanted."""
    size = sum(loader.types.values())
    factors = {**NARROWER, **(AS_BYTES if as_bytes and is_picture(loader.shape) else {})}
    return sum(part * factors.get(name, 1.0) for name, part in loader.types.items()) / size if size else 1.0


def with_fewer_bytes(outlook: Outlook, share: float) -> Speedup:
    """Return what it would buy to hand over batches of only `share` of their bytes."""
    sure, most = (seconds * (1 - share) for seconds in _copying(outlook.run, outlook.process, outlook))
    return pinned_less(outlook, share, copied=(sure, most))


def _copying(run: Features, process: Process, outlook: Outlook) -> tuple[float, float]:
    """Return the least and the most s for which a batch is on the link, within what the device's clock has of a step.

    As timed, where it was. Else the least at the link's own rate; the most where all but kernels is copying.
    """
    size, per_batch, timed = outlook.loader.batch_bytes or 0, outlook.per_batch, process.device_step
    best = max((rates(d.link)[0] * USABLE for d in run.devices if d.link), default=0.0)
    least = size / best if best and process.copies else 0.0
    room = max(0.0, device_time(run, process, per_batch) - device_work(run, process, per_batch))
    if timed is not None and timed.copying > 0:
        return min(timed.copying, room), min(timed.copying, room)
    return min(least, room), room if process.copies else 0.0
