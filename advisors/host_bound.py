"""Kernels are launched slower than they run: the device is done before the host has queued the next ones.

What it sees: a device that idles although neither data nor results nor copies are waited for, and a host that
computes all of that time inside torch: modules, the backward pass, the optimizer (by the CPU clock of sampled steps,
and by the stacks; where stacks may not be taken, by the backward pass alone).

Why it matters: each operation costs the host some microseconds of Python and launching. Many small ones take longer to
launch than to run, and a faster device changes nothing.

What to do: `torch.compile(model)` fuses operations, with `mode="reduce-overhead"` it also replays them as CUDA
graphs; use the fused form of the optimizer (`fused=True`, or `foreach=True`); with memory to spare, a larger batch
does more work for the same launches.

When it is wrong: when something else computes under the model's forward pass, such as metrics or text in Python. When
shapes change at every step, graphs and compilation gain little.

Sources: PyTorch blog, "Accelerating PyTorch with CUDA Graphs", 2021 (up to x5 at small batches); Ansel et al.,
"PyTorch 2", 2024 (compilation: x1.41 on average of training); PyTorch documentation, "Performance Tuning Guide".
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.core.figures import MOSTLY
from gputune.core.finding import UNUSED, Finding
from gputune.features import Features, Process
from gputune.model.minimum_samples import settled
from gputune.model.overlapping import OverlapStep, gain, lanes
from gputune.model.workload import device_share

UNDERUSED = 0.7  # busy share: above it, less than a third of a step can be won by launching faster
ELSEWHERE = 0.2  # of a step waiting for data, results or copies: with more, that is the cause
COMPUTING = 0.7  # of the rest of the step that the host computes: else it waits for something
NOTABLE = 0.3  # of a step under torch: the device's idle time has to come from there
SAVED = (
    0.3,
    0.9,
    1.0,
)  # of it: what fusing saves at least, and what graphs do, which are one launch each: all of it but that
FUSED = (0.7, 0.9, 1.0)  # of this: an optimizer that goes through its parameters in one kernel still lists them
ONE_BY_ONE = (
    "an optimizer with fused=True (or foreach=True), and gradients clipped with foreach=True: one kernel for many"
)
MANY = 'torch.compile(model, mode="reduce-overhead") (CUDA graphs), optimizers with fused=True, or larger batches'


def advise(run: Features) -> Iterator[Finding]:
    found = []
    for process in run.processes:
        busy, moving = device_share(run, process), _moving(process)
        if busy is not None and busy >= UNUSED and busy + moving < UNDERUSED and (step := _bound(run, process)):
            found.append(_finding(process, replace(step, device=step.device + moving * step.step), busy + moving))
    yield from sorted(found, key=lambda f: -f.speedup.likely)[:1]  # ranks run the same code


def _moving(process: Process) -> float:
    """Return the share of the loop in which the device stands for copies on the step's own stream, 0 where unknown."""
    timed = process.device_step
    return timed.copying / timed.whole if timed is not None and timed.whole > 0 else 0.0


def _bound(run: Features, process: Process) -> OverlapStep | None:
    """Return the step of a process whose host computes under torch while its device waits; None of any other."""
    step = lanes(run, process)
    if step is None or not settled(process):
        return None
    waits = step.waiting + step.synced + step.copying
    steps = process.steps
    own = max(0.0, step.step - waits - (process.queued or 0.0) * process.loop / steps)  # who queues for a CPU computes
    computes = step.computing >= COMPUTING * own and step.launching >= NOTABLE * step.step
    return step if waits <= ELSEWHERE * step.step and computes else None


def _merged(process: Process, launching: float) -> float:
    """Return the s of an optimizer's kernels that go where one takes the place of many: of those that only just run.

    What takes as long as launching it (s) has its bytes to move, in however few kernels.
    """
    update = (process.device_step.update or 0.0) if process.device_step is not None else 0.0
    return update * max(0.0, 1 - update / launching) if launching > 0 else 0.0


def _finding(process: Process, step: OverlapStep, busy: float) -> Finding:
    steps = process.steps
    optimizer = min(step.launching, process.optimizing / steps)
    # most of that time from the backward pass to the end of the optimizer's step: then it is the optimizer's
    by_optimizer = optimizer >= MOSTLY * step.launching
    part, saved = (optimizer, FUSED) if by_optimizer else (step.launching, SAVED)
    merged = _merged(process, optimizer) if by_optimizer else 0.0
    least, likely, most = (
        replace(step, device=step.device - gone * merged).without(part * share, spared=part * share)
        for share, gone in zip(saved, (0.0, *saved[1:]), strict=True)
    )
    speedup = gain(process, step.step, least, likely, most)
    what = f", {optimizer * 1e3:.3g} ms of it after the backward pass" if by_optimizer else ""
    return Finding(
        id="host-bound",
        says=(
            f"the device is busy {busy:.0%} of the time and waits for the host, which computes "
            f"{step.launching * 1e3:.3g} of {step.step * 1e3:.3g} ms a step under the model, its backward pass and its "
            f"optimizer{what}: it launches kernels slower than they run"
        ),
        do=ONE_BY_ONE if by_optimizer else MANY,
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis=f"{saved[0]:.0%} to {saved[2]:.0%} of that time taken off the step, down to the device's own"
        + (", of which the optimizer's shortest kernels go likewise" if merged else ""),
        falsified_by=(
            f"samples/s with fused=True below x{speedup.low:.2f} of this run's"
            if by_optimizer
            else "a device that idles as much when the same kernels are replayed as a CUDA graph"
        ),
        effect="changes-rounding",
        evidence={
            "busy": busy,
            "step_s": step.step,
            "launching_s": step.launching,
            "optimizing_s": optimizer,
            "computing_s": step.computing,
            "device_s": step.device,
            "merged_s": merged,
            "waiting_s": step.waiting + step.synced + step.copying,
        },
    )
