"""Work that is no training runs at every step: after the optimizer's step, before the next batch is asked for.

What it sees: the time from the end of the optimizer's step to the next `next()`, without what is timed by itself
(checkpoints, logging, reporting, evaluations, waits for the device), and the stacks of the training thread: which lines
of the loop below the optimizer's step they show, and what lies under them. It speaks of lines under which they show
Python's own modules or libraries that do not touch weights (json, pickle, subprocess, numpy, scikit-learn, matplotlib
and their like), and hardly any of torch; and of copies of the model (`copy.deepcopy`).

Why it matters: a metric over all that was predicted so far, a history that is written anew, a picture that is drawn or
the best model that is kept costs as much as it takes, at every step: no worker does it meanwhile, and the device
waits. Much of it grows with the run.

What to do: do it every so many steps or once an epoch, add up what it needs instead of starting anew, or hand the
numbers to a process of its own.

When it is wrong: when the next step needs the result (hard-negative mining, a curriculum, reinforcement learning, a
target network).
It is silent where it cannot tell: for work in torch's functions or in plain Python, which looks like a moving average
of the weights; for statements on the line of the optimizer's step; inside of a trainer of a library; without stacks.

Sources: the checklist of causes in docs/causes.md (metric computation, metric reporting).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gputune.features import Afterwork, Features, Process
from gputune.figures import mean
from gputune.finding import Finding
from gputune.moving import left_out
from gputune.pauses import AFFORDABLE, rarer

CHECKLIST = ("metric computation", "metric reporting")

LEAST = 20  # steps that were timed, and stacks of the loop: below it, nothing is predicted
NOTABLE = 0.08  # of the loop: a scheduler's step, counters and a progress bar take less
RARE = 0.05  # of the steps, those with most work behind them, are left out: an epoch's end, a picture now and then
APART = 0.25  # of a line's stacks that show a library under it: the rest is its calls in C, which have no frame
TORCH = 0.1  # of a line's stacks with torch in them: from here on it may be work on the weights
NORMAL = 1.96  # standard errors of a 95 % interval


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        steps = process.batches
        if not steps or process.loop <= 0 or min(len(process.after_step), process.loop_stacks) < LEAST:
            continue
        clock = _clock(process, steps)
        lines = clock.explains(process.afterwork)
        told = [line for line in lines if is_apart(line)]
        sure, likely = clock.seconds(told, sum(line.share for line in lines))
        if told and likely * steps >= NOTABLE * process.loop:
            yield _finding(run, process, told, sure, likely)


def is_apart(line: Afterwork) -> bool:
    """Return whether what runs in a line is surely no work on the weights."""
    return line.apart >= APART * line.share and line.torch <= TORCH * line.share


@dataclass(frozen=True, slots=True)
class _Clock:
    """The s that a step takes by itself, and what of it comes after the optimizer's; `scale` is s for a share of 1.

    What a line takes is known by how its stacks do against those of the lines up to the step, wherever it lies.
    """

    own: float
    timed: float
    scale: float
    stacks: int  # that shares are of

    def explains(self, lines: Sequence[Afterwork]) -> Sequence[Afterwork]:
        """Return the lines in which the timed s lie: those around the loop only where its own surely leave much."""
        inner = [line for line in lines if not line.around]
        share = sum(line.share for line in inner)
        missing = self.timed - self.scale * (share + self._margin(share))
        return lines if missing >= NOTABLE * self.own else inner

    def seconds(self, told: Sequence[Afterwork], behind: float) -> tuple[float, float]:
        """Return the s of each step in these lines, of a share `behind` the step in all: at the least, and likely.

        What is timed after the step may be in others; what the stacks show may lie behind the loop's end.
        """
        share = sum(line.share for line in told)
        likely = max(0.0, min(share * self.scale, self.timed - (behind - share) * self.scale))
        return max(0.0, min(likely, (share - self._margin(share)) * self.own)), likely

    def _margin(self, share: float) -> float:
        """Return how far a share may be off: by so many stacks it is known."""
        some = max(share, 1 / self.stacks)
        return NORMAL * math.sqrt(some * max(0.0, 1 - some) / self.stacks)


def _clock(process: Process, steps: int) -> _Clock:
    kept = sorted(process.after_step)[: max(1, round(len(process.after_step) * (1 - RARE)))]
    spans = sum(seconds for name, seconds in process.in_loop.items() if name != "step")
    own = max(0.0, process.loop - spans) / steps
    timed = min(own, mean(kept))
    before = 1 - sum(line.share for line in process.afterwork if not line.around)
    return _Clock(own, timed, (own - timed) / before if before > 0 else own, process.loop_stacks)


def _finding(run: Features, process: Process, told: Sequence[Afterwork], sure: float, likely: float) -> Finding:
    steps = process.batches
    share = likely * steps / process.loop
    factor = rarer(share / AFFORDABLE)
    gain, least = (left_out(run, process, each * (1 - 1 / factor)) for each in (likely, sure))
    speedup = replace(gain, low=min(gain.low, least.low), steady=min(gain.steady, least.steady))
    line = told[0]
    return Finding(
        id="work-after-step",
        says=(
            f"the loop works {likely * 1e3:.3g} ms a step behind the optimizer's step and before the next batch "
            f"({share:.0%} of its time), mostly at {line.where} ({line.library})"
        ),
        do=f"do it {factor} times less often, add it up instead of starting anew, or hand it to another process",
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis=f"that work taken off all steps but one in {factor}, down to what the loader and the device can do",
        falsified_by=f"samples/s without {line.where} below x{speedup.low:.2f} of this run's",
        effect="identical",
        evidence={
            "share": share,
            "each_s": likely,
            "timed_s": mean(process.after_step),
            "stacks": float(process.loop_stacks),
            "steps": steps,
            "factor": factor,
        },
        where=line.where,
    )
