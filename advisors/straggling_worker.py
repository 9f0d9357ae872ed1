"""One slow sample, or one slow worker, holds up batches that are ready behind it.

What it sees: batches that had arrived while an earlier one was still waited for (torch keeps them back, for it delivers
in order), how much the times of making batches differ, and whether they differ by worker. The model finds that
delivery in the order of completion would end the waits.

Why it matters: while one worker is at a slow sample, the others may run only `prefetch_factor` batches ahead each; then
they stand still, and so does the device, although batches are there.

What to do: `in_order=False` (torch 2.6 and later) lets batches come as they are made. Or make the slow samples
equal to the others: cut long ones, sort by length into the same batch, move their decoding offline.
In an iterable dataset a worker that is slower than the others has a slow part of its own, as a far site: no order of
delivery makes it shorter, and more workers do so only where the dataset cuts that very part again. Give each worker a
share of it, in turn with its share of the rest.

When it is wrong: when an experiment has to be repeatable, or the order of samples means something (curricula, packed
documents): in_order=False gives another order in each run. Slow samples that are all of one kind then come late. Where
it is the worker itself that is slow, and not what it reads, shares do not help.

Sources: `torch.utils.data.DataLoader`, `in_order`; pytorch pull request 141833; the model is `gputune/model/replay.py`.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from gputune.core.finding import WAITING, WORTH_SAYING, Finding, Speedup
from gputune.features import Features
from gputune.model.ceiling import with_ceiling
from gputune.model.prediction import Outlook, outlooks
from gputune.model.shard_imbalance import slow_worker

CHECKLIST = ("data loading",)

SLOW = 3.0  # times the median: a batch so slow is no ordinary variation
SINCE = (2, 6)  # the torch that has in_order


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        loader = outlook.loader
        if outlook.starving < WAITING or loader.num_workers < 2 or not loader.in_order:
            continue
        if not any(count > 0 for count in loader.early):  # nothing was ever held up behind another batch
            continue
        loose, shared = outlook.out_of_order(), outlook.shared_out()
        if shared is not None and slow_worker(loader.fetches) and shared.likely > max(WORTH_SAYING, loose.likely):
            yield _shared(_finding(outlook, shared))
        elif loose.likely >= WORTH_SAYING:
            yield with_ceiling(outlook, _finding(outlook, loose))


def has_in_order(torch: str) -> bool:
    """Return whether this version of torch knows `in_order`; one that is not known is taken for a new one."""
    found = re.match(r"(\d+)\.(\d+)", torch)
    return found is None or (int(found[1]), int(found[2])) >= SINCE


def _finding(outlook: Outlook, speedup: Speedup) -> Finding:
    loader = outlook.loader
    walls = [f.wall for f in loader.fetches]
    usual, longest = median(walls), max(walls)
    slow = sum(wall > SLOW * usual for wall in walls) / len(walls)
    held = sum(count > 0 for count in loader.early) / len(loader.early)
    culprit = slow_worker(loader.fetches)
    newer = has_in_order(outlook.process.torch)
    if culprit is not None:
        why = f"worker {culprit[0]} takes {culprit[1]:.2g} times as long as any other"
    elif slow:
        why = f"{slow:.1%} of the batches take more than {SLOW:g} times the usual {usual * 1e3:.3g} ms"
    else:
        why = f"batches take {usual * 1e3:.3g} to {longest * 1e3:.3g} ms"
    return Finding(
        id="straggling-worker",
        says=(
            f"the loop waits {outlook.starving:.0%} of its time, at {held:.0%} of the batches with later ones there "
            f"already: {why}"
        ),
        do="set in_order=False" if newer else "make slow samples like the others, or use torch 2.6 and in_order=False",
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="DataLoader replayed over the measured times of its batches and steps, delivered as they are made",
        falsified_by=f"samples/s with in_order=False below x{speedup.low:.2f} of this run's",
        effect="changes-order",
        evidence={
            "waiting": outlook.starving,
            "held_up": held,
            "slow_batches": slow,
            "usual_batch_s": usual,
            "longest_batch_s": longest,
            "slowest_worker": culprit[1] if culprit else 1.0,
            **({"slow_worker": culprit[0]} if culprit else {}),
        },
        where=loader.where,
        change={"in_order": False} if newer else {},
    )


def _shared(finding: Finding) -> Finding:
    """Say it of a slow part of an iterable dataset, which no setting makes shorter."""
    return replace(
        finding,
        do=f"share out what worker {finding.evidence['slow_worker']:g} reads: a part of it for each worker, in turn "
        "with the rest",
        basis="DataLoader replayed over the measured times of its batches and steps, dealt out evenly to the workers",
        falsified_by=f"samples/s with equal shares for all workers below x{finding.speedup.low:.2f} of this run's",
        change={},
    )
