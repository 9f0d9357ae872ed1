"""Work of the loop's own runs at every step: after the optimizer's step, before the next batch is asked for.

What it sees: the time from the end of the optimizer's step to the next `next()`, without what is timed by itself
(checkpoints, logging, reporting, evaluations, waits for the device), and the stacks of the training thread: which lines
of the loop below the optimizer's step they show, and what lies under them. Of some lines it is sure that they do not
work on the weights: those under which they show Python's own modules or libraries that do not touch them (json, pickle,
subprocess, numpy, scikit-learn, matplotlib and their like) and hardly any of torch, copies of the model
(`copy.deepcopy`), and those that hold the interpreter as often as they are seen. Others may be a moving average of the
weights. That is a part of the training; but one pass over them in place takes no longer than the optimizer's step,
which passes over them as well. Of such lines only what they take beyond that step counts, by the stacks of both. Where
no stack met a step so short, the model's lines tell what comes after it, and what passes from the end of the backward
pass to that of the step is how long it takes at the most.
Without a DataLoader: the time from the end of the step to the first call of a module, less what torch works on the
weights, where the stacks show most of the loop's own work below the line of the step.

Why it matters: a metric over all that was predicted so far, a history that is written anew, a picture that is drawn,
the best model that is kept or an average of the weights that is built anew costs as much as it takes, at every step: no
worker does it meanwhile, and the device waits. Much of it grows with the run.

What to do: do it every so many steps or once an epoch, add up what it needs instead of starting anew, or hand the
numbers to a process of its own. Averages of weights: in place, over lists of tensors (`torch._foreach_lerp_`; of an
`AveragedModel` by `multi_avg_fn=get_ema_multi_avg_fn()`), which rounds differently; every few steps, with the decay to
that power, makes another average.

When it is wrong: when the next step needs the result (hard-negative mining, a curriculum, reinforcement learning, a
target network). Several averages in place may together take longer than the optimizer's step, and cannot be written
faster. Without a DataLoader also when it makes the next batch: then a DataLoader should, ahead of time.
It is silent where it cannot tell: for lines that go through a model, which may be training; for what may as well be a
wait for a device; for statements on the line of the optimizer's step; inside of a trainer of a library; without stacks.

Sources: the checklist of causes in docs/causes.md (metric computation, metric reporting).
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

from gputune.core.figures import NORMAL, mean
from gputune.core.finding import Effect, Finding, Speedup
from gputune.features import Afterwork, Features, Process
from gputune.model.loaderless import BEHIND, behind, on_weights, side, unattended
from gputune.model.offload import NOTABLE, for_a_device, left_out, moved_to_workers
from gputune.model.pauses import AFFORDABLE, rarer

CHECKLIST = ("metric computation", "metric reporting")

LEAST = 20  # steps that were timed: below it, nothing is predicted
LEAST_STACKS = 12  # of the loop, likewise: how little they tell of a share is in the interval
ONCE = 1  # step, the one with most work behind it, counts as the next one: that came once
PERIODIC = 0.8  # of the time behind the steps that lies behind those with most: else it comes with each
APART = 0.25  # of a line's stacks that show a library under it: the rest is its calls in C, which have no frame
SEEN = 0.5  # of what was timed that stacks must show at the most: with less, it is something else
PLAIN = "plain Python"
TORCH = 0.1  # of a line's stacks with torch in them: from here on it may be work on the weights, or training
IN_PLACE = "if it is an average of the weights: in place, by torch._foreach_lerp_ over lists of tensors"
ELSE = "do it every few steps, add it up instead of starting anew, or hand it to another process"
AVERAGES = re.compile(r"average|avg|(?<![a-z])(?:ema|swa|lerp|polyak)(?![a-z])", re.IGNORECASE)  # in its name
WHAT_FOR = "nothing tells what that work is for; what only reports changes nothing"


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        if process.loop <= 0 or process.loop_stacks < LEAST_STACKS:
            continue
        if process.batches and len(process.after_step) >= LEAST:
            yield from _after(run, process)
        elif not process.batch_gotten and len(process.before_forward) >= LEAST and side(process) == BEHIND:
            yield from _unattended(run, process)


def _after(run: Features, process: Process) -> Iterator[Finding]:
    """Return the finding on lines that surely are no work on the weights, or on the others if these take more."""
    clock = _clock(process, process.batches)
    lines = clock.explains(_plain(process))
    whole = sum(line.share for line in lines)
    every = _every(process)
    apart = [line for line in lines if is_apart(line) or (every > 1 and not _through_a_model(line))]
    others = [line for line in lines if line not in apart and not _through_a_model(line)]
    sure, likely, highest = clock.seconds(apart, whole)
    least, most, _ = clock.seconds(others, whole)
    idle = for_a_device(run, process)
    stepped = _stepped(clock, process)
    beyond = max(0.0, most - stepped - idle)
    # so much of the loop: a scheduler's step, counters and a progress bar take less
    notable = NOTABLE * process.loop / process.batches
    if likely >= max(notable, beyond):
        yield _rarer(run, process, apart[0], (sure, likely, highest), every)
    elif beyond >= notable and stepped:
        margin = clock.scale * clock.margin(process.stepping) if process.stepping else 0.0
        sure = max(0.0, least - stepped - margin - idle)
        yield _in_place(run, process, others[0], (sure, beyond, most), stepped)


def _every(process: Process) -> int:
    """Return every how many steps such work comes, as it takes turns with steps that have hardly any behind them."""
    most = max(process.after_step)
    notable = [number for number, seconds in enumerate(process.after_step) if seconds >= most / 2]
    if sum(process.after_step[number] for number in notable) < PERIODIC * sum(process.after_step):
        return 1
    return int(median(b - a for a, b in pairwise(notable))) if len(notable) > 1 else 1


def _stepped(clock: "_Clock", process: Process) -> float:
    """Return the s of a round in the optimizer's step: by the stacks, else at most: from a backward pass to its end."""
    return clock.scale * process.stepping or process.optimizing / process.batches


def _unattended(run: Features, process: Process) -> Iterator[Finding]:
    steps = process.optimizer_steps
    clock = _clock(process, steps)
    share = behind(process)
    idle = for_a_device(run, process)
    likely = min(unattended(process), share * clock.own) - idle
    sure = min(likely, (share - clock.margin(share)) * clock.own - idle)
    plain = [line for line in process.afterwork if line.share > on_weights(process) and not _through_a_model(line)]
    if plain and likely * steps >= NOTABLE * process.loop:
        yield _either(run, process, plain[0], max(0.0, sure), likely)


def _plain(process: Process) -> Sequence[Afterwork]:
    """Return the lines behind the step: plain Python, as looks at the interpreter tell it, is no work on weights."""
    plain = {line.where for line in process.interpreted if not line.side}
    return [
        replace(line, apart=line.share, library=line.library or PLAIN) if line.where in plain else line
        for line in process.afterwork
    ]


def is_apart(line: Afterwork) -> bool:
    """Return whether what runs in a line is surely no work on the weights."""
    return line.apart >= APART * line.share and line.torch <= TORCH * line.share


def _through_a_model(line: Afterwork) -> bool:
    """Return whether what runs in a line may be training."""
    return line.model > TORCH * line.share


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
        missing = self.timed - self.scale * (share + self.margin(share))
        return lines if missing >= NOTABLE * self.own else inner

    def seconds(self, told: Sequence[Afterwork], behind: float) -> tuple[float, float, float]:
        """Return the s of each step in these lines, of a share `behind` the step in all: at least, likely, at most.

        What is timed after the step may be in others; what the stacks show may lie behind the loop's end. Where there
        are no others, all that is timed is theirs, unless their stacks show less than half of it: plain Python changes
        its frames while a stack is taken, and is missed more often than what is up to the step. Of no line, nothing.
        """
        if not told:
            return 0.0, 0.0, 0.0
        share = sum(line.share for line in told)
        others = (behind - share) * self.scale
        surely = self.surely(share)
        alone = self.timed if surely >= SEEN * self.timed else surely
        shown = share * self.scale if others else alone
        likely = max(0.0, min(shown, self.timed - others))
        least = max(0.0, min(likely, (share - self.margin(share)) * self.own))
        return least, likely, max(likely, min(surely, self.timed))

    def surely(self, share: float) -> float:
        """Return the s that a share of the stacks stands for at the most."""
        return (share + self.margin(share)) * self.scale

    def margin(self, share: float) -> float:
        """Return how far a share may be off: by so many stacks it is known."""
        some = max(share, 1 / self.stacks)
        return NORMAL * math.sqrt(some * max(0.0, 1 - some) / self.stacks)


def _clock(process: Process, steps: int) -> _Clock:
    ordered = sorted(process.after_step)
    most = ordered[max(0, len(ordered) - 1 - ONCE)] if ordered else 0.0
    spans = sum(seconds for name, seconds in process.in_loop.items() if name != "step")
    own = max(0.0, process.loop - spans) / steps
    timed = min(own, mean(min(seconds, most) for seconds in ordered))
    before = 1 - sum(line.share for line in process.afterwork if not line.around)
    return _Clock(own, timed, (own - timed) / before if before > 0 else own, process.loop_stacks)


def _rarer(run: Features, process: Process, line: Afterwork, each: tuple[float, float, float], every: int) -> Finding:
    """Return the finding on work that need not be done so often, and takes `each` s a step: surely, likely, at most."""
    factor = rarer(each[1] * process.batches / process.loop / AFFORDABLE)
    least, gain, most = (left_out(run, process, seconds * (1 - 1 / factor)) for seconds in each)
    found = _finding(
        process,
        line,
        each[1],
        replace(gain.down_to(least), high=most.high),
        f" ({line.library})" if line.library else _calls(line),
        do=f"do it {factor} times less often, add it up instead of starting anew, or hand it to another process",
        basis=f"that work taken off all steps but one in {factor}, down to what loader and device can do",
        every=every,
    )
    return replace(found, evidence={**found.evidence, "factor": factor, "every": every})


def _in_place(
    run: Features, process: Process, line: Afterwork, each: tuple[float, float, float], step: float
) -> Finding:
    """Return the finding on work that may be on the weights, in all `each[2]` s, and the optimizer's step takes `step`.

    `each` begins with what of it is too much: surely, and likely.
    """
    sure, beyond, most = each
    with_torch = line.torch > TORCH * line.share or AVERAGES.search(line.calls) is not None
    least, gain, without = (left_out(run, process, seconds) for seconds in (sure, beyond, most))
    found = _finding(
        process,
        line,
        most,
        replace(gain.down_to(least), high=max(gain.high, without.high)),
        f"{_calls(line)}; the optimizer's step takes {step * 1e3:.2g} ms",
        do=f"{IN_PLACE}; if not, {ELSE}" if with_torch else f"{ELSE}; {IN_PLACE}",
        basis="that work down to what the optimizer's step takes; at the high end without it",
        effect="changes-rounding" if with_torch else "unknown",
    )
    return replace(found, evidence={**found.evidence, "beyond_s": beyond, "optimizer_s": step})


def _either(run: Features, process: Process, line: Afterwork, sure: float, likely: float) -> Finding:
    """Return the finding on work in a loop without a DataLoader, which may be left out or made ahead."""
    gain, least = (left_out(run, process, each) for each in (likely, sure))
    workers, moved = moved_to_workers(run, process, sure)
    return _finding(
        process,
        line,
        likely,
        gain.down_to(least).down_to(moved),
        _calls(line),
        do=(
            "do it every few steps, add it up instead of starting anew, or hand it to another process; "
            f"if it makes the next batch, have a DataLoader do it ahead, with num_workers={workers}"
        ),
        basis="the loop without that work; at the low end moved to workers, replayed within the CPUs of this job",
        following="round",
    )


def _calls(line: Afterwork) -> str:
    return f" ({line.calls})" if line.calls else ""


def _finding(  # noqa: PLR0913 - what the three differ in
    process: Process,
    line: Afterwork,
    each: float,
    speedup: Speedup,
    what: str,
    *,
    do: str,
    basis: str,
    effect: Effect = "unknown",
    following: str = "batch",
    every: int = 1,
) -> Finding:
    steps = process.steps
    share = each * steps / process.loop
    often = "a step" if every == 1 else f"every {every} steps"
    return Finding(
        id="work-after-step",
        says=(
            f"the loop works {each * every * 1e3:.3g} ms {often} behind the optimizer's step and before the next "
            f"{following} ({share:.0%} of its time), mostly at {line.where}{what}"
        ),
        do=do,
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis=basis,
        falsified_by=f"samples/s without {line.where} below x{speedup.low:.2f} of this run's",
        effect=effect,
        because=WHAT_FOR if effect == "unknown" else "",
        evidence={
            "share": share,
            "each_s": each,
            "timed_s": mean(process.after_step or process.before_forward),
            "stacks": float(process.loop_stacks),
            "steps": steps,
        },
        where=line.where,
    )
