"""Batches lie in page-locked memory, but the training waits for each copy to the device all the same.

What it sees: copies from page-locked memory on the training thread without `non_blocking=True`, and how long they held
it: the copy itself, and all that the device still had to do before it.

Why it matters: a copy that is waited for joins host and device once a step. The host cannot prepare the next step
while the device works, and the device idles until the host has queued something again.

What to do: `batch.to(device, non_blocking=True)`. What reads the tensor on the device needs no change: it comes
later in the same stream.

When it is wrong: when the loop waits for the device once a step anyway (`.item()`): then only the copy's own time can
run beside the launches. Never with copies back to the host: reading one before it has come gives wrong numbers.

Sources: CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; "A guide on good usage of non_blocking and
pin_memory() in PyTorch" (pytorch.org tutorials).
"""

from collections.abc import Iterator

from gputune.core.finding import Finding
from gputune.features import Features
from gputune.model.pinning import PINNED
from gputune.model.transfers import ASKED, Held, beside, held

CHECKLIST = ("1.6",)


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        # so much of the bytes of a place: else unpinned-memory is the cause
        pinned = [c for c in process.copies if c.pinned >= PINNED and c.size]
        found = held(run, process, [c for c in pinned if c.non_blocking < ASKED])
        if found is not None:
            yield _finding(found)


def _finding(found: Held) -> Finding:
    step = found.lanes
    speedup = beside(step, step.then(1.0, unattended=True), step.at_best(1.0), step.at_worst(1.0))
    return Finding(
        id="blocking-copy",
        says=(
            f"copies from pinned memory are waited for, {found.share:.0%} of the loop: {step.copying * 1e3:.3g} ms "
            f"a step, of which the link needs {step.moving * 1e3:.3g} ms ({found.worst.what})"
        ),
        do="copy with non_blocking=True",
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis="the host's own work beside the device's instead of after it"
        + ("" if step.measured else "; low: what is sure of that"),
        falsified_by=f"samples/s with non_blocking=True below x{speedup.low:.2f} of this run's",
        effect="identical",
        evidence={**found.evidence, "sync_s": step.syncing},
        where=found.worst.where,
    )
