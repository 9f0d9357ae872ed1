"""Batches wait for the one thread that copies them into page-locked memory, however many workers make them.

What it sees: with `pin_memory=True` and workers, torch has one thread in the training process that takes each batch
from the workers, copies its tensors into page-locked memory and hands them on to `next()`. How long it takes for that
is measured around it, its CPU time and the time that it has no CPU apart.

Why it matters: no more batches come than that thread pins, one after the other. Beyond it more workers only make
batches that lie and wait.

What to do: hand over fewer bytes. Pictures that are bytes on the disk can stay bytes until they are on the device
(`x.to(device, non_blocking=True).float().div_(255)`): a quarter of float32. Other numbers fit float16 or int32, a half.
Where the types are as narrow as can be, nothing need be pinned anew: tensors in shared memory (`share_memory_()`),
made before the workers start and page-locked once (`cudaHostRegister`), are filled by the workers, which return their
number; there are as many as batches are on their way (workers x prefetch) and two more. Two DataLoaders, and so two
such threads, gained nothing where that was tried. Without `pin_memory` the training itself would pay, by copies that
block. The first batches take longest, for page-locked memory is new then, and used again later: batches of equal size
that are let go of in time (no list of them) keep it so.

When it is wrong: when the values need the digits, when the conversion costs the device more than the copy did, or
when something else fills the CPUs or the memory's bandwidth, so that the thread is slow by that.

Sources: `torch.utils.data` documentation, "Memory Pinning"; torch, `torch/utils/data/_utils/pin_memory.py`; the model
is `gputune/model/replay.py`.
"""

from collections.abc import Iterator

from gputune.core.figures import mean
from gputune.core.finding import HALF, WAITING, WORTH_SAYING, Effect, Finding, Speedup
from gputune.features import Features
from gputune.model.pinning import is_picture, left, rate_of, with_fewer_bytes
from gputune.model.prediction import Outlook, outlooks
from gputune.model.remade import pinned_less

CHECKLIST = ("1.6", "data loading")

NARROW = 0.9  # of the bytes: where more are left, the types are as narrow as can be


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        if outlook.waiting < WAITING or not outlook.job.pins or not outlook.now.workers:
            continue
        share = left(outlook.loader, as_bytes=True)
        if share > NARROW:
            # half of pinning: what at least goes where the workers have a copy more to make instead
            speedup = pinned_less(outlook, 0.0, smaller=False).down_to(pinned_less(outlook, HALF, smaller=False))
        else:
            more = left(outlook.loader, as_bytes=False)  # pictures may be no bytes
            speedup = with_fewer_bytes(outlook, share).down_to(with_fewer_bytes(outlook, more))
        if speedup.likely >= WORTH_SAYING:
            yield _finding(outlook, speedup, share)


def _cure(outlook: Outlook, share: float) -> tuple[str, str, Effect]:
    """Return what to do, what would prove it wrong, and what it does to the results."""
    if share > NARROW:
        once = "page-lock buffers in shared memory once (`torch.cuda.cudart().cudaHostRegister`)"
        return (
            f"{once}; have workers fill one and return its number, with pin_memory=False",
            "such buffers",
            "identical",
        )
    wide = max(outlook.loader.types, key=lambda name: outlook.loader.types[name]).removeprefix("torch.")
    kept = "uint8" if is_picture(outlook.loader.shape) and "float" in wide else "int32" if "int" in wide else "float16"
    back = ".float().div_(255)" if kept == "uint8" else f".to(torch.{wide})"
    there = f"x.to(device, non_blocking=True){back}"
    return (
        f"hand batches over as {kept}, not {wide}, and convert on the device (`{there}`): {share:.0%} of the bytes",
        f"batches of {kept}",
        "changes-rounding",
    )


def _finding(outlook: Outlook, speedup: Speedup, share: float) -> Finding:
    loader = outlook.loader
    size, rate = loader.batch_bytes or 0, rate_of(loader)
    cure, tried, effect = _cure(outlook, share)
    of = f"a batch of {size / 1e6:.3g} MB" if size else "a batch"
    at = f" ({rate / 1e9:.3g} GB/s)" if rate else ""
    pinning = mean(pin.wall for pin in loader.pins)
    return Finding(
        id="slow-pinning",
        says=(
            f"the loop waits {outlook.waiting:.0%} of its time for batches, and these for the one thread of "
            f"pin_memory=True: it takes {pinning * 1e3:.3g} ms to pin {of}{at}, "
            f"{loader.num_workers} workers make one in {outlook.making * 1e3:.3g} ms each, "
            f"a step takes {outlook.stepping * 1e3:.3g} ms"
        ),
        do=cure,
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis=(
            "DataLoader replayed "
            + (
                "with nothing to pin; low: with half of it"
                if share > NARROW
                else f"with {share:.0%} of the bytes to pin, and for the device to copy"
            )
        ),
        falsified_by=f"samples/s with {tried} below x{speedup.low:.2f} of this run's",
        effect=effect,
        evidence={
            "waiting": outlook.waiting,
            "pinning_s": pinning,
            "taking_s": outlook.job.taking,
            "fresh_s": loader.fresh,
            "batch_s": outlook.making,
            "step_s": outlook.stepping,
            "batch_bytes": size,
            "bytes_per_s": rate,
            "bytes_left": share,
        },
        where=loader.where,
    )
