"""The batch sampler takes the time: saying which samples make the next batch, in the training process.

What it sees: the part of each `next()` in which torch asks the DataLoader's batch sampler for the indices of a batch,
measured around it; and what it takes at the start of each pass, before the first batch (an order that is drawn up
anew, in plain Python). With workers, too, that is the training's own thread: whenever it takes a batch it draws the
indices of one that is then begun.

Why it matters: no worker does it ahead of time. A sampler that sorts, packs or bins lengths anew for each batch, or
that looks something up for each index, holds up every step by as much, and the device waits.

What to do: draw up the batches of an epoch once, before the first of them is given out (sort with numpy, keep the
list), or once and for all in a file; or do it ahead in a thread or process of its own.

When it is wrong: when the next batch hangs on what the model said of the last one (curricula, hard-negative mining).

Sources: `torch.utils.data` documentation, "Data Loading Order and Sampler"; the model is `gputune/model/replay.py`.
"""

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from gputune.core.finding import HALF, WAITING, WORTH_SAYING, Finding, Speedup
from gputune.features import Features
from gputune.model.prediction import ERROR, Outlook, interval, outlooks, unsteady

CHECKLIST = ("data loading", "preprocessing")

PASSES = 2  # starts that were seen behind the first, for it to be what comes with each


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        if outlook.picking < WAITING * outlook.per_batch:
            yield from _at_starts(run, outlook)
            continue
        # half of its time: what at least goes where it cannot be drawn up ahead; and in one pass, it is none of each
        gain, half = outlook.with_picked(0.0), outlook.with_picked(HALF)
        if gain.likely >= WORTH_SAYING:
            low, steady = (min(half.likely, end) for end in (gain.low, gain.sure))
            yield _finding(outlook, replace(gain, low=low, steady=steady))


def _finding(outlook: Outlook, speedup: Speedup) -> Finding:
    share = outlook.picking / outlook.per_batch
    settled = outlook.loader.order in {"fixed", "own"}  # nothing of it is drawn from a generator that others use
    return Finding(
        id="slow-sampler",
        says=(
            f"the loop waits {share:.0%} of its time for the batch sampler: it takes {outlook.picking * 1e3:.3g} ms a "
            f"batch to say which samples come next, in the training process, with workers or without{_mostly(outlook)}"
        ),
        do="draw up the batches of an epoch once, before the first one (sort in numpy, keep the list), or ahead",
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="DataLoader replayed with a batch sampler that takes no time; low: with half of it",
        falsified_by="the same pace with `batch_sampler=list(batch_sampler)`, which is drawn up before the loop",
        effect="identical" if settled else "changes-order",
        because=""
        if settled
        else "what a sampler draws ahead of time it draws before the training's own random numbers",
        evidence={"share": share, "sampler_s": outlook.picking, "step_s": outlook.stepping, "waiting": outlook.waiting},
        where=outlook.loader.where,
    )


def _at_starts(run: Features, outlook: Outlook) -> Iterator[Finding]:
    """Speak of what the sampler does at the start of each pass but the first, which comes before the loop."""
    starts = [epoch.picking for epoch in outlook.loader.epochs[1:] if epoch.batches]
    share = sum(starts) / outlook.process.loop if outlook.process.loop else 0.0
    if len(starts) < PASSES or not WAITING <= share < 1 or max(starts) > HALF * sum(starts):
        return
    width = ERROR, unsteady(run)
    gain = interval(1 / (1 - share), *width).down_to(interval(1 / (1 - HALF * share), *width))
    yield Finding(
        id="slow-sampler",
        says=(
            f"at the start of each pass over the data the batch sampler takes {median(starts):.2g} s before there is a "
            f"batch, {share:.0%} of the loop, with workers or without{_mostly(outlook)}"
        ),
        do="draw up the order of a pass with whole arrays (numpy, torch.argsort), or in a thread in the pass before",
        share_lost=1 - 1 / gain.likely,
        speedup=gain,
        basis="that time taken off the loop; at the low end half of it",
        falsified_by="samples/s with an order that is drawn up once below x" + f"{gain.low:.2f} of this run's",
        effect="changes-order",
        because="what a sampler draws in another way are other random numbers",
        evidence={"share": share, "each_s": median(starts), "passes": len(starts)},
        where=outlook.loader.where,
    )


def _mostly(outlook: Outlook) -> str:
    return f"; mostly at {outlook.process.sampler}" if outlook.process.sampler else ""
