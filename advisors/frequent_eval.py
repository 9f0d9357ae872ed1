"""Evaluating the model takes a large part of the training loop.

What it sees: the time between `model.eval()` (or a pass over another loader with gradients off) and the next training
step, its own loader waits included, between the first and the last training batch.

Why it matters: every second of validation is one in which nothing is learned. One pass per epoch is ordinary; several
a minute seldom tell more than one.

What to do: evaluate every N steps or epochs, on a fixed subset in between, or in a process of its own.

When it is wrong: when early stopping needs the resolution, or the validation is what the run is for. And when such a
pass makes the data that is trained on: rollouts of a policy, self-play, pseudo-labels. It is silent where that shows:
the pass asks no loader for batches, and either the training goes on with a DataLoader that was built after it, or a
library of environments (gymnasium and the like) is loaded, or without any DataLoader the model is called with fewer
samples at a time than it learns from: who evaluates has no gradients to keep, and takes as many or more.

Sources: the checklist of causes in docs/causes.md (metric computation).
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.core.figures import MOSTLY
from gputune.core.finding import Finding
from gputune.features import Features, Place, Process
from gputune.model.pauses import Words, advise_pause

CHECKLIST = ("metric computation",)

WORDS = Words(
    id="frequent-eval",
    span="evaluation",
    one="an evaluation",
    verb="evaluate",
    change="eval_interval",
    least=0.20,  # of the loop; a pass over a validation set of a fifth of the data, once an epoch, is good practice
    affordable=0.05,  # of the loop: validation is worth more than a log line, and one step in twenty buys a lot of it
)


MOST = 0.5  # of the loop in evaluations that come once an epoch: a loop that evaluates more than it trains is odd
ROLLOUT = "rollout"  # what the guest calls a pass beside environments, or one that takes few samples at a time


def advise(run: Features) -> Iterator[Finding]:
    finding = advise_pause(run, WORDS)
    if finding is None or (finding.evidence["share"] <= MOST and _ordinary(run, finding)):
        return
    places = [p for process in run.processes for p in process.places if _is_of(p, finding)]
    # most of the passes: if more of them make data to train on, they are no evaluations
    if sum(map(_making, places)) > MOSTLY * sum(p.count for p in places):
        return
    if not any(p.waits_inside for p in places):  # over no loader: what it is for does not show
        finding = replace(finding, do=f"{finding.do}, unless these passes make the data that is trained on")
    yield finding


def _is_of(place: Place, finding: Finding) -> bool:
    return place.span == WORDS.span and place.where == finding.where


def _making(place: Place) -> int:
    """Return how many of these passes made data to train on, as far as that shows."""
    return place.count if place.what == ROLLOUT and not place.waits_inside else place.feeds


def _ordinary(run: Features, finding: Finding) -> bool:
    """Return whether the evaluations come no more often than once an epoch."""
    return finding.evidence["count"] <= max((_epochs(p) for p in run.processes), default=0)


def _epochs(process: Process) -> int:
    return sum(1 for x in process.loaders if x.training for e in x.epochs if e.batches)
