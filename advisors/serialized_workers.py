"""The workers wait for each other: whatever their number, one batch is made at a time.

What it sees: in a run of some minutes the workers are held up now and then for half of the time that a batch takes
them, a quarter of them after the other (`watch --passive`: never). Where each makes its batches by itself, and the loop
waits for them, these come later by as much. Where they come hardly later at all, the workers stand in line for
something, and the line is there whether one of them comes a little later or not: a lock of files or of a database, one
server, one connection, one thread that reads for all of them. No clock of a worker tells that from waiting of its own.
In shorter runs, too, each batch is held against how many were made beside it, which changes while one worker is held
up, and as passes begin and end: in a line each waits for longer the more there are, and all of them get no further.

Why it matters: more workers would only make the line longer.

What to do: give each worker its own (open the file or the connection in the worker, not before it is forked; one
reader each), ask for a whole batch at once (`__getitems__`), copy the data to where it can
be read side by side, or drop the lock where the data is only read.

When it is wrong: where workers and training share CPUs so that the time of one is the others' (the replay knows CPUs,
and is asked first), and where a server answers several at a time, but not as many as there are workers: then fewer
stand in line than is taken for granted, and less is won.

Sources: Curtsinger and Berger, "Coz: Finding Code that Counts with Causal Profiling", SOSP 2015, which slows everything
else to see what a part is worth; docs/experiments.md.
"""

from collections.abc import Iterator, Mapping

from gputune.core.figures import MOSTLY
from gputune.core.finding import WAITING, Finding, Speedup
from gputune.features import Features, Slope
from gputune.model.company import WaitGrowth
from gputune.model.prediction import Outlook, outlooks
from gputune.model.remedies import told
from gputune.model.turns import in_company, in_turn, side_by_side

CHECKLIST = ("data loading", "1.4")

MORE = 1.25  # by which twice the workers would have to help for it to be wrong


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        if outlook.starving < WAITING:
            continue
        slope, company = in_turn(outlook), in_company(outlook)
        if company is not None:
            yield _by_company(outlook, company)
        elif slope is not None:
            yield _by_slope(outlook, slope)


def _by_slope(outlook: Outlook, slope: Slope) -> Finding:
    ms, later = slope.delay * 1e3, max(0.0, slope.value) * slope.delay * 1e3
    return _finding(
        outlook,
        side_by_side(outlook),
        f"held up {slope.count} times for {ms:.3g} ms, they were {later:.2g} ms late",
        "what holding all workers up did to the pace",
        {"slope": slope.value, "slope_error": slope.error, "times": slope.count, "delay_s": slope.delay},
    )


def _by_company(outlook: Outlook, company: WaitGrowth) -> Finding:
    usual, alone = company.usual * 1e3, company.alone * 1e3
    return _finding(
        outlook,
        side_by_side(outlook, company.alone / company.usual),
        f"a batch waits {usual:.3g} ms as one of {company.number:.2g} that are made, and {alone:.3g} ms by itself",
        "by how much longer batches took the more of them were made",
        {"shared": company.share, "shared_error": company.error, "in_flight": company.number, "alone_s": company.alone},
    )


def _finding(outlook: Outlook, speedup: Speedup, seen: str, by: str, evidence: Mapping[str, float]) -> Finding:
    loader = outlook.loader
    return Finding(
        id="serialized-workers",
        says=(
            f"{loader.num_workers} workers make batches in turn: {seen}{_standing(outlook)}; the loop waits "
            f"{outlook.starving:.0%} of its time"
        ),
        do=(
            "give each its own of what only one can use at a time (lock, file, connection, server), or ask for whole "
            "batches: more workers bring nothing"
        ),
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis=f"measured: {by}; replayed: the loop if none waited for another",
        falsified_by=f"samples/s with twice the workers above x{MORE:g} of this run's",
        effect="unknown",
        because="it depends on what they share",
        evidence={
            "waiting": outlook.starving,
            **evidence,
            "batch_s": outlook.making,
            "num_workers": loader.num_workers,
        },
        where=loader.where,
    )


def _standing(outlook: Outlook) -> str:
    """Return where workers are for most of the time in which they make batches, where stacks tell."""
    if not told(outlook):
        return ""
    doing = max(outlook.process.making, key=lambda doing: doing.share)
    # most of making a batch: a place that is named
    return f"; {doing.share:.0%} of making one is at {doing.where or doing.what}" if doing.share >= MOSTLY else ""
