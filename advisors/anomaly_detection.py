"""torch's anomaly detection is on: each function that is called writes down from where, and each gradient is checked.

What it sees: stacks of the training thread in which torch writes down the stack of a function that it is asked for
(`torch/fx/traceback.py` below torch's own frames), and their share of the loop; and what torch says of it as the model
is called. Where torch says that it is on, the looks at gradients cost something as well: then the share counts as it
was seen, and not the low end of what it may be.

Why it matters: `torch.autograd.set_detect_anomaly(True)` is for finding where a NaN comes from. It formats a whole
stack of Python for every function of the forward pass, looks for NaN in all gradients of the backward pass, and each of
these looks waits for the device. Steps take two to ten times as long.

What to do: leave it out, or switch it on by an option for the run that looks for the NaN.

When it is wrong: while that NaN is looked for. What the looks at the gradients cost shows in no stack: the gain is what
writing down the stacks takes, at least.

Sources: PyTorch, "Performance Tuning Guide", disable debugging APIs for training.
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.core.figures import wilson
from gputune.core.finding import Finding, Speedup
from gputune.features import Features, Process
from gputune.model.offload import share_left_out

CHECKLIST = ("loss computation",)

NOTABLE = 0.03  # of the stacks: nothing else of torch's does this at every function
ELSEWHERE = 2.0  # times as long did a step of twelve small layers take with it, on a CPU (tests/zoo)


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        if process.steps and process.loop and process.traces:
            low = process.traces if process.precision.anomaly else wilson(process.traces, process.looked)[0]
            if low >= NOTABLE:
                yield _finding(run, process, low)


def _finding(run: Features, process: Process, low: float) -> Finding:
    share = process.traces
    least, gain = (share_left_out(run, process, each) for each in (low, share))
    return Finding(
        id="anomaly-detection",
        says=(
            f"torch's anomaly detection is on: writing down where each function was called takes {share:.0%} of the "
            "loop, and every gradient is searched for NaN"
        ),
        do="leave out torch.autograd.set_detect_anomaly(True), but in a run that looks for a NaN",
        share_lost=1 - 1 / gain.likely,
        speedup=_elsewhere(gain.down_to(least)),
        basis="what writing down the stacks takes, taken off the loop; what the searches take shows nowhere",
        falsified_by=f"samples/s without it below x{least.low:.2f} of this run's",
        effect="identical",
        evidence={"share": share, "stacks": float(process.looked)},
    )


def _elsewhere(gain: Speedup) -> Speedup:
    """Return the gain as the least that is known if steps keep their pace, with what it was elsewhere."""
    likely = max(ELSEWHERE, gain.likely)
    return replace(gain, low=gain.sure, likely=likely, high=max(likely, gain.high), at_least=True)
