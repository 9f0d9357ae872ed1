"""The training step runs plain Python: inside of a model, or between its forward pass and what follows.

What it sees: looks at which thread holds the interpreter (the GIL), one burst after each burst of ordinary stacks.
Torch lets go of the interpreter while it works; who is seen with it runs Python, or a library that does not let go. Of
the lines in and under which nothing else is seen it takes those inside of a module's call, and those between the last
forward pass and the backward pass or the optimizer's step: their share of the looks is their share of the loop.

Why it matters: tokenising text, a confusion matrix, a loss that goes through samples one by one, lists that are made of
tensors: one CPU does it while model and device wait, at every step.

What to do: what depends on the data alone (tokens, masks, targets) belongs into the dataset, where workers do it ahead,
or is made once and kept. What depends on the model's output is done every few steps, on whole batches by torch's
functions, or on numbers that are handed to another process.

When it is wrong: when the next step needs the result and nothing computes it faster (matching, sampling by a rule).
It is silent about what stands before the model or behind the step, which the clock measures (`preprocessing-in-loop`,
`work-after-step`), of loops over many small functions of torch's (`host-bound`), and where py-spy may not look.

Sources: the checklist of causes in docs/causes.md (metric computation, preprocessing coupled with training).
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.core.figures import wilson
from gputune.core.finding import Finding
from gputune.features import Features, Interpreted, Process
from gputune.model.minimum_samples import LEAST_LOOKS
from gputune.model.offload import NOTABLE, share_left_out

CHECKLIST = ("metric computation", "2.1")

STANDS = {"inside": "inside of the model", "between": "between the model and the backward pass or optimizer's step"}


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        lines = [line for line in process.interpreted if line.side]
        if process.acting is not None:  # a policy's pass is no part of a step, and what follows it is an environment's
            continue
        if process.steps and process.loop and process.held_looks >= LEAST_LOOKS and lines:
            share = sum(line.share for line in lines)
            low, high = wilson(share, process.held_looks)
            if low >= NOTABLE:  # so much of the loop: counters, a progress bar and a schedule take less
                yield _finding(run, process, lines[0], (low, share, high))


def _finding(run: Features, process: Process, first: Interpreted, shares: tuple[float, float, float]) -> Finding:
    least, gain, most = (share_left_out(run, process, share) for share in shares)
    each = shares[1] * process.loop / process.steps
    return Finding(
        id="python-in-step",
        says=(
            f"each step runs {each * 1e3:.3g} ms of plain Python {STANDS[first.side]} ({shares[1]:.0%} of the loop), "
            f"mostly at {first.where}{_called(first)}"
        ),
        do=(
            "what depends on the data alone: in the dataset or once ahead; on the model's output: every few steps, "
            "or on whole batches by torch's functions"
        ),
        share_lost=1 - 1 / gain.likely,
        speedup=replace(gain.down_to(least), high=max(gain.high, most.high)),
        basis="that work taken off every step, down to what loader and device can do",
        falsified_by=f"samples/s without {first.where} below x{least.low:.2f} of this run's",
        effect="unknown",
        because="nothing tells what that work is for; what only reports changes nothing",
        evidence={
            "share": shares[1],
            "each_s": each,
            "at_first": first.share,
            "looks": float(process.held_looks),
            "steps": process.steps,
        },
        where=first.where,
    )


def _called(line: Interpreted) -> str:
    return f" ({line.calls})" if line.calls else f", in {line.function}"
