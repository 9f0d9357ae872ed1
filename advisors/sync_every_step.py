"""The training waits for the device at every step, to read a number that it could read later.

What it sees: calls that wait for the device (`.item()`, `.cpu()`, `.tolist()`, `float(loss)`, `if loss > x`,
`torch.cuda.synchronize()`, and of `print(loss)` or a log line the part that reads the tensor), their places in the
code, how long an ordinary step stands in them, and how busy the device is.

Why it matters: the host queues kernels ahead of the device. Once it waits for the device to finish, the queue is
empty, and the device idles until the next step's kernels have been queued: all that the host does by itself (Python,
launches, getting a batch) is added to the step instead of running beside the device.

What to do: keep the number on the device (`total += loss.detach()`), and read it every 50 steps; take
`torch.cuda.synchronize()` out of the loop (`torch.cuda.Event` measures without it); copy results back with
`non_blocking=True` and read them a step later. With float16, a GradScaler reads a number at every step by itself:
bfloat16 needs none, and optimizers with `fused=True` leave it on the device.

When it is wrong: when the next step needs the number (a loss scaler that skips steps, early stopping, sampling). When
the device is busy all the time anyway: then nothing is said. Indexing by tensors waits as well, but is not seen.

Sources: PyTorch documentation, "Performance Tuning Guide: Avoid unnecessary CPU-GPU synchronization"; torchtune issue
522 (`.item()` took 40 to 50 ms a step).
"""

from collections.abc import Iterator

from gputune.core.finding import HALF, Finding
from gputune.features import Features, Place, Process
from gputune.model.minimum_samples import settled
from gputune.model.overlapping import OverlapStep, gain, lanes

CHECKLIST = ("loss computation", "3.3")

NOTABLE = 0.03  # of a step spent waiting for results: below it, there is nothing to win
COPIES = 0.03  # of a step held by copies: they join host and device as well, so both have to go
EVERY = 50  # steps between two readings: 2 % of what is saved stays
SURE = 0.8  # of what is saved: some of it may turn up as waiting elsewhere


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        step = lanes(run, process)
        if step is None or not settled(process):
            continue
        places = [p for p in process.places if p.span == "sync"]
        if places and step.synced >= NOTABLE * step.step:
            yield _finding(process, step, places)


def _finding(process: Process, step: OverlapStep, places: list[Place]) -> Finding:
    steps = process.steps
    copies = step.copying >= COPIES * step.step
    saved = step.synced + (step.copying if copies else 0.0)
    then, best = (step.without(saved, pinned=copies, alone=alone) for alone in (False, True))
    kept = then + (step.step - then) / EVERY
    sure = step.step - (step.step - kept) * (HALF if copies else SURE)  # of it where copies have to be changed as well
    speedup = gain(process, step.step, sure, kept, best)
    worst = max((p for p in places if p.count >= steps / EVERY), key=lambda p: p.seconds, default=places[0])
    others = sorted({p.where for p in places if p.where != worst.where and p.count >= steps / EVERY})
    return Finding(
        id="sync-every-step",
        says=(
            f"each step waits {step.synced * 1e3:.3g} ms for the device ({worst.what}"
            f"{', also at ' + ', '.join(others[:3]) if others else ''}): it computes {step.device * 1e3:.3g} ms of "
            f"{step.step * 1e3:.3g}, and idles while the host prepares the next step"
        ),
        do=_cure(worst.what) + (", and copy batches with pin_memory=True and non_blocking=True" if copies else ""),
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis=f"the host's own time beside the device's instead of before it, but for one step in {EVERY}",
        falsified_by=f"samples/s with a reading every {EVERY} steps below x{speedup.low:.2f} of this run's",
        effect="identical",
        evidence={
            "step_s": step.step,
            "sync_s": step.synced,
            "device_s": step.device,
            "copy_s": step.copying,
            "share": step.synced / step.step,
            "count": worst.count,
            "steps": steps,
        },
        where=worst.where,
        change={"sync_interval": EVERY},
    )


def _cure(what: str) -> str:
    if "synchronize" in what:
        return "take it out of the loop; torch.cuda.Event measures without waiting"
    return f"keep the number on the device (`total += loss.detach()`) and read it every {EVERY} steps"
