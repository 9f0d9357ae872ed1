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

from collections.abc import Iterator

from gputune.core.finding import Finding
from gputune.features import Features
from gputune.model.pinning import measured_rate, pageable, pinning_rate
from gputune.model.transfers import ASKED, Held, beside, held, times_faster

CHECKLIST = ("1.6",)


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        copies = pageable(process.copies)
        rate = pinning_rate(run, copies)
        found = held(run, process, copies, rate)
        if found is not None:
            known = "as other batches are" if measured_rate(run) else "as fast as these copies"
            yield _finding(found, rate, known, times_faster(run, found.lanes.moving, found.size))


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
