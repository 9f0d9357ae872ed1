"""Between two passes over its data the training does something else: it makes its data set anew, as a rule.

What it sees: the time from the end of a pass (or from the last step after it, where a fetcher reads ahead) until the
next one begins, without what evaluations, checkpoints and the like take of it; in the median pass, and in all. Stacks
show at which lines around the loop it lies.

Why it matters: nobody makes batches in that time, and no step is made. A data set whose constructor reads, parses or
tokenises its files, a list of files that is made again, caches that are filled for one pass and thrown away: with short
passes that is a good part of the run.

What to do: make what is the same for every pass once, before the loop. What has to be new for each, such as negatives
that are drawn again, a thread or process can make while the pass before it goes on.

When it is wrong: when the next pass hangs on what the model learned in the last one and cannot be made ahead. It is
silent where a model makes the next pass's data (rollouts, pseudo-labels), or where most stacks at the line go through a
model (pictures of a generator, a validation by hand): nothing of that can be made once.

Sources: the checklist of causes in docs/causes.md (preprocessing coupled with training).
"""

from collections.abc import Iterator
from statistics import median

from gputune.core.finding import HALF, Finding
from gputune.features import MODEL, Features, Process
from gputune.model.prediction import ERROR, interval, unsteady

CHECKLIST = ("data loading", "2.1")

LEAST = 0.05  # of the loop
PASSES = 3  # gaps, for it to be what comes with each of them, or two
ALIKE = 1.5  # times as long as each other at the most
NOTHING = 0.1  # of the mean gap
SPAN = "between"


def advise(run: Features) -> Iterator[Finding]:
    for process in run.processes:
        gaps = _gaps(process)
        if not process.loop or not _again(gaps) or process.in_loop.get(SPAN, 0.0) < LEAST * process.loop:
            continue
        # half of it is gone at the least, where it is known what it is; and of it comes with each pass
        if median(gaps) * len(gaps) >= HALF * sum(process.between) and not _is_of_a_model(process, len(gaps)):
            yield _finding(run, process)


def _again(gaps: list[float]) -> bool:
    """Return whether there were enough gaps to say that each pass has one: of two, both alike."""
    return len(gaps) >= PASSES or (len(gaps) > 1 and max(gaps) <= ALIKE * min(gaps))


def _gaps(process: Process) -> list[float]:
    """Return the gaps, in s, without those in which next to nothing was done: a second pass, or a short loader's."""
    each = sum(process.between) / max(1, len(process.between))
    return [gap for gap in process.between if gap >= NOTHING * each]


def _is_of_a_model(process: Process, gaps: int) -> bool:
    """Return whether a model makes what the next pass is over, or is mostly what is at work there."""
    feeds = sum(place.feeds for place in process.places) >= HALF * gaps
    return feeds or bool(process.outside and process.outside[0].side == MODEL)


def _finding(run: Features, process: Process) -> Finding:
    share, each = process.in_loop[SPAN] / process.loop, median(_gaps(process))
    line = process.outside[0] if process.outside else None
    width = ERROR, unsteady(run)
    gain, least = (interval(1 / (1 - share * part), *width) for part in (1.0, HALF if line else 0.0))
    gain = gain.down_to(least)
    called = f" ({line.calls})" if line and line.calls else ""
    return Finding(
        id="work-between-passes",
        says=(
            f"between two passes over its data the training does something else for {each:.2g} s, {share:.0%} of the "
            f"loop{f', mostly at {line.where}{called}' if line else ''}"
        ),
        do=(
            "make what is the same for each pass once, before the loop (a data set, its index, its tokens); what must "
            "be new, in a thread or process during the pass before"
        ),
        share_lost=1 - 1 / gain.likely,
        speedup=gain,
        basis="that time taken off the loop; at the low end half of it" + ("" if line else ", or none: no stacks"),
        falsified_by=f"samples/s with a data set that is made once below x{gain.low:.2f} of this run's",
        effect="unknown",
        because="what is drawn anew for each pass would stay the same",
        evidence={"share": share, "each_s": each, "passes": len(process.between)},
        where=line.where if line else "",
    )
