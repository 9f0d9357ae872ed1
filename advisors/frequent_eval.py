"""Evaluating the model takes a large part of the training loop.

What it sees: the time between `model.eval()` (or a pass over another loader with gradients off) and the next training
step, its own loader waits included, between the first and the last training batch.

Why it matters: every second of validation is one in which nothing is learned. One pass per epoch is ordinary; several
a minute seldom tell more than one.

What to do: evaluate every N steps or epochs, on a fixed subset in between, or in a process of its own.

When it is wrong: when early stopping needs the resolution, or the validation is what the run is for.

Sources: the checklist of causes in docs/evidence.md (metric computation).
"""

from collections.abc import Iterator

from gputune.features import Features, Process
from gputune.finding import Finding
from gputune.pauses import Words, advise_pause

CHECKLIST = ("metric computation",)

WORDS = Words(
    id="frequent-eval",
    span="evaluation",
    one="an evaluation",
    verb="evaluate",
    change="eval_interval",
    least=0.20,  # of the loop; a pass over a validation set of a fifth of the data, once an epoch, is good practice
    effect="identical",
    affordable=0.05,  # of the loop: validation is worth more than a log line, and one step in twenty buys a lot of it
)


MOST = 0.5  # of the loop in evaluations that come once an epoch: a loop that evaluates more than it trains is odd


def advise(run: Features) -> Iterator[Finding]:
    finding = advise_pause(run, WORDS)
    if finding is not None and (finding.evidence["share"] > MOST or not _ordinary(run, finding)):
        yield finding


def _ordinary(run: Features, finding: Finding) -> bool:
    """Return whether the evaluations come no more often than once an epoch."""
    return finding.evidence["count"] <= max((_epochs(p) for p in run.processes), default=0)


def _epochs(process: Process) -> int:
    return sum(1 for x in process.loaders if x.training for e in x.epochs if e.batches)
