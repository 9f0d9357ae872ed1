"""Batches are copied to the device from pageable memory: slower, and the training thread has to wait for it.

What it sees: copies from the host to the device on the training thread (`.to()`, `.cuda()`): their bytes, how long they
held it, and that the memory was not page-locked.

Why it matters: the driver copies pageable memory through a small page-locked buffer of its own, piece by piece, and
the call returns only when the last piece is on its way. Until then the thread queues nothing for the device.

One thread of the training process pins what workers make: the prediction has it take each batch at the rate at which
batches of this run are pinned, else at that of the copies themselves, which the driver stages in the same way.

What to do: `pin_memory=True` in the DataLoader, and `non_blocking=True` in the copy. A collate function that returns a
class of its own needs a `pin_memory()` method on it.

When it is wrong: when the copies are small; when page-locked memory is scarce (it cannot be swapped, and workers x
prefetch batches may be held); when the batch comes from somebody else's tensor, which pinning would have to copy first.

Sources: "A guide on good usage of non_blocking and pin_memory() in PyTorch" (pytorch.org tutorials); NVIDIA, "How to
Optimize Data Transfers in CUDA C/C++" (pageable and pinned rates side by side); docs/evidence.md.
"""

import math
from collections.abc import Iterator

from gputune.features import Features
from gputune.finding import Finding
from gputune.pcie import USABLE, rates
from gputune.pinning import measured_rate, pageable, pinning_rate
from gputune.transfers import ASKED, Held, beside, held

CHECKLIST = ("1.6",)

FASTER = (1.5, 2.0, 4.0)  # times, at the least, likely, at best: a copy from page-locked memory, of an unknown link


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        copies = pageable(process.copies)
        rate = pinning_rate(run, copies)
        found = held(run, process, copies, rate)
        if found is not None:
            known = "as other batches are" if measured_rate(run) else "as fast as these copies"
            yield _finding(found, rate, known, _faster(run, found))


def _faster(run: Features, found: Held) -> tuple[float, float, float]:
    """Return how many times as fast copies from page-locked memory are: at the least, likely and at best.

    At best what the link carries, likely halfway there (on a scale of times) from what is usual: a virtual machine may
    make its link up.
    """
    links = [rates(device.link)[0] for device in run.devices if device.link is not None]
    if not links or not min(links) or not found.lanes.moving or not found.size:
        return FASTER
    least, usual, _ = FASTER
    most = max(1.0, USABLE * min(links) * found.lanes.moving / found.size)
    return min(least, most), min(math.sqrt(usual * most), most), most


def _finding(found: Held, rate: float, known: str, faster: tuple[float, float, float]) -> Finding:
    step, worst = found.lanes, found.worst
    least, likely, best = faster
    loader = next((x for x in found.process.loaders if x.training), None)
    unset = loader is not None and not loader.pin_memory
    asked = all(copy.non_blocking >= ASKED for copy in found.copies)
    change = {"pin_memory": True} if asked else {"pin_memory": True, "non_blocking": True}
    speedup, pinned = (
        beside(
            step,
            step.then(likely, unattended=free),
            step.at_best(best) if free else step.then(best, unattended=False),
            sure,
        )
        for free, sure in ((True, step.at_worst(least)), (False, step.then(least, unattended=False)))
    )
    return Finding(
        id="unpinned-memory",
        says=(
            f"copies from pageable memory hold the training {found.share:.0%} of the loop: "
            f"{found.size / 1e6:.3g} MB a step in {step.copying * 1e3:.3g} ms ({worst.what})"
        ),
        do=("set pin_memory=True in the DataLoader" if unset else "pin what is copied")
        + ("" if asked else ", copy with non_blocking=True"),
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis=(
            f"the copies {likely:.2g} times as fast ({best:.2g} at best), and beside the host's own work instead of "
            f"between it; low: {least:.2g} times as fast"
            + (f"; workers' batches pinned by one thread at {rate / 1e9:.3g} GB/s, {known}" if rate else "")
        ),
        falsified_by=f"samples/s with pinned batches below x{speedup.low:.2f} of this run's",
        effect="identical",
        evidence={**found.evidence, "fastest_bytes_per_s": worst.fastest, "pinned_bytes_per_s": rate},
        where=worst.where,
        change=change if unset else {},
        part=None if asked else pinned,
    )
