"""What the `frequent-…` advisors share: a pause every so many steps, and the interval that it deserves."""

import math
from dataclasses import dataclass

from gputune.features import Features, Place, Process
from gputune.finding import Effect, Finding
from gputune.prediction import pause_gain

AFFORDABLE = 0.01  # of the loop: a pause that takes less is nobody's problem
ROUND = (1, 2, 5)  # intervals people type


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How an advisor names its pause."""

    id: str
    span: str
    one: str  # "a checkpoint"
    verb: str  # "save"
    change: str  # the setting's name in `change`
    least: float  # share of the loop from which on it is worth saying
    effect: Effect
    affordable: float = AFFORDABLE  # share of the loop that the advised interval leaves it


def advise_pause(run: Features, words: Words) -> Finding | None:
    """Return the finding for the process that loses most to this pause, or None."""
    worst = max(run.processes, key=lambda p: _share(p, words.span), default=None)
    if worst is None or _share(worst, words.span) < words.least:
        return None
    return _finding(run, worst, words)


def _share(process: Process, span: str) -> float:
    return process.in_loop.get(span, 0.0) / process.loop if process.loop else 0.0


def rarer(factor: float) -> int:
    """Return the smallest round factor that is at least `factor`: 2, 5, 10, 20, 50 and so on."""
    power = 1
    while True:
        for digit in ROUND:
            if digit * power >= max(2.0, factor):
                return digit * power
        power *= 10


def _finding(run: Features, process: Process, words: Words) -> Finding:
    share = _share(process, words.span)
    places = [p for p in process.places if p.span == words.span]
    place = places[0] if places else Place(span=words.span, where="", what="", count=0, seconds=0.0)
    count = place.count  # of the costliest place: a model and its optimizer, or a file and its fsync, are saved at once
    steps = process.batches or process.optimizer_steps
    factor = rarer(share / words.affordable)
    gain = pause_gain(run, process, words.span, 1 / factor)
    each = place.seconds / place.count if place.count else 0.0
    every = max(1, round(steps / count)) if count else 1
    interval = math.ceil(every * factor)
    return Finding(
        id=words.id,
        says=(
            f"{words.one} every {_steps(every)} takes {share:.0%} of the loop"
            + (f" ({each * 1e3:.3g} ms each, {place.what})" if place.what else "")
        ),
        do=f"{words.verb} every {_steps(interval)} instead of every {_steps(every)}",
        share_lost=1 - 1 / gain.likely,
        speedup=gain,
        basis=f"the measured pauses, all but one in {factor}, taken off the loop, down to what its loader can deliver",
        falsified_by=f"samples/s with an interval of {_steps(interval)} below x{gain.low:.2f} of this run's",
        effect=words.effect,
        evidence={"share": share, "count": count, "each_s": each, "steps": steps, "factor": factor},
        where=place.where,
        change={words.change: interval},
    )


def _steps(number: int) -> str:
    return "step" if number == 1 else f"{number} steps"
