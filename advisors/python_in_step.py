"""The training step runs plain Python: inside of a model, or between its passes and the optimizer's step.

What it sees: looks at which thread holds the interpreter (the GIL), one burst after each burst of ordinary stacks.
Torch lets go of the interpreter while it works; who is seen with it runs Python, or a library that does not let go. Of
the lines in and under which nothing else is seen it takes those inside of a module's call, and those between the last
forward pass and the backward pass or the optimizer's step: their share of the looks is their share of the loop.
And looks at what passes from the end of the backward pass to that of the optimizer's step, by the clock. One pass over
the gradients takes no longer than the optimizer's step, which passes over them and the weights; where the stacks show
most of that time in lines of the script's own, with none but torch's plain functions under them, they go through the
gradients one by one, or do what is no part of the step.

Why it matters: tokenising text, a confusion matrix, a loss that goes through samples one by one, lists that are made of
tensors, a norm of each gradient by itself: one CPU does it while model and device wait, at every step.

What to do: what depends on the data alone (tokens, masks, targets) belongs into the dataset, where workers do it ahead,
or is made once and kept. What depends on the model's output is done every few steps, on whole batches by torch's
functions, or on numbers that are handed to another process. Of gradients: all in one call, as
`torch.nn.utils.clip_grad_norm_` does it, or lists of them by `torch._foreach_norm` and its like.

When it is wrong: when the next step needs the result and nothing computes it faster (matching, sampling by a rule,
projections of gradients on each other).
It is silent about what stands before the model or behind the step, which the clock measures (`preprocessing-in-loop`,
`work-after-step`), of loops over many small functions of torch's (`host-bound`), and where py-spy may not look.

Sources: the checklist of causes in docs/causes.md (metric computation, preprocessing coupled with training).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gputune.core.figures import half_wilson, wilson
from gputune.core.finding import HALF, Finding
from gputune.features import Features, Interpreted, Process
from gputune.model.minimum_samples import LEAST_LOOKS
from gputune.model.offload import NOTABLE, for_a_device, share_left_out

CHECKLIST = ("metric computation", "2.1")

STANDS = {"inside": "inside of the model", "between": "between the model and the backward pass or optimizer's step"}


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        if process.acting is not None:  # a policy's pass is no part of a step, and what follows it is an environment's
            continue
        if process.steps and process.loop:
            found = _interpreted(run, process) or _updating(run, process)
            yield from [found] if found else ()


def _interpreted(run: Features, process: Process) -> Finding | None:
    """Return the finding on lines of plain Python in a step, None where they take next to nothing."""
    lines = [line for line in process.interpreted if line.side]
    if process.held_looks < LEAST_LOOKS or not lines:
        return None
    share = sum(line.share for line in lines)
    low, high = wilson(share, process.held_looks)
    # so much of the loop: counters, a progress bar and a schedule take less
    return _finding(run, process, lines[0], (low, share, high)) if low >= NOTABLE else None


def _updating(run: Features, process: Process) -> Finding | None:
    """Return the finding on lines between the backward pass and the optimizer's step that take longer than that step.

    What they take is known by the clock and by the stacks, and is the less of both. What they need is taken to be half
    of a step of the optimizer: for sure no more than one, and perhaps nothing.
    """
    lines = [line for line in process.aside if not line.side]
    own = process.loop - sum(seconds for name, seconds in process.in_loop.items() if name != "step")
    if not lines or process.looked < LEAST_LOOKS or not process.loop_stacks:
        return None
    shown, off = sum(line.share for line in lines), half_wilson(process.stepping, process.loop_stacks)
    step, margin = (each * own / process.loop for each in (process.stepping, off))
    between = process.optimizing / process.loop
    waits = min(1.0, for_a_device(run, process) * process.steps / process.loop)
    low, high = wilson(shown, process.looked)
    likely = min(shown, between - step)
    sure = min(low, between - step - margin) - step - margin - waits
    if sure < NOTABLE:
        return None
    shares = sure, likely - HALF * step - waits, min(high, between - step + margin)
    return _one_by_one(run, process, lines[0], shares, (likely, step))


def _one_by_one(
    run: Features, process: Process, line: Interpreted, shares: tuple[float, float, float], now: tuple[float, float]
) -> Finding:
    each, step = (share * process.loop / process.steps for share in now)
    return _told(
        run, process, line, shares,
        says=(
            f"each step works {each * 1e3:.3g} ms between its backward pass and the optimizer's step ({now[0]:.0%} of "
            f"the loop), mostly at {line.where}, in {line.function}; the optimizer's step takes {step * 1e3:.2g} ms"
        ),
        do=(
            "what goes through gradients: all of them in one call (`torch.nn.utils.clip_grad_norm_`, "
            "`torch._foreach_norm`); what only reports: every few steps"
        ),
        basis="that work down to half of what the optimizer's step takes; from all of that (low) to nothing (high)",
        evidence={
            "share": now[0],
            "each_s": each,
            "optimizer_s": step,
            "at_first": line.share,
            "stacks": float(process.looked),
            "steps": process.steps,
        },
    )  # fmt: skip


def _finding(run: Features, process: Process, first: Interpreted, shares: tuple[float, float, float]) -> Finding:
    each = shares[1] * process.loop / process.steps
    return _told(
        run, process, first, shares,
        says=(
            f"each step runs {each * 1e3:.3g} ms of plain Python {STANDS[first.side]} ({shares[1]:.0%} of the loop), "
            f"mostly at {first.where}{_called(first)}"
        ),
        do=(
            "what depends on the data alone: in the dataset or once ahead; on the model's output: every few steps, "
            "or on whole batches by torch's functions"
        ),
        basis="that work taken off every step, down to what loader and device can do",
        evidence={
            "share": shares[1],
            "each_s": each,
            "at_first": first.share,
            "looks": float(process.held_looks),
            "steps": process.steps,
        },
    )  # fmt: skip


def _told(  # noqa: PLR0913 - what a finding says in its own words
    run: Features,
    process: Process,
    first: Interpreted,
    shares: tuple[float, float, float],
    *,
    says: str,
    do: str,
    basis: str,
    evidence: Mapping[str, float],
) -> Finding:
    """Return the finding on work at a line: `shares` of the loop go without it, at the least, likely, at the most."""
    least, gain, most = (share_left_out(run, process, share) for share in shares)
    return Finding(
        id="python-in-step",
        says=says,
        do=do,
        share_lost=1 - 1 / gain.likely,
        speedup=replace(gain.down_to(least), high=max(gain.high, most.high)),
        basis=basis,
        falsified_by=f"samples/s without {first.where} below x{least.low:.2f} of this run's",
        effect="unknown",
        because="nothing tells what that work is for; what only reports changes nothing",
        evidence=evidence,
        where=first.where,
    )


def _called(line: Interpreted) -> str:
    return f" ({line.calls})" if line.calls else f", in {line.function}"
