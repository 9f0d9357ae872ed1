"""Ranks get different amounts of data, and those with less wait for those with more.

What it sees: the batches and samples that each rank's training loaders gave, and how long each rank worked.

Why it matters: a job of ranks is over, or an epoch of it, when the rank with the largest share is. What the others have
less, they wait: in `join()`, at the next barrier, or at every step where batches differ in size.

What to do: shares of equal size: `DistributedSampler` (which pads the last ones), `drop_last=True`, as many shards as a
multiple of the ranks for an `IterableDataset`, and batches of about equal cost (bucket by length across the ranks, not
within each).

When it is wrong: where the ranks are meant to differ; for data whose cost is not in the number of samples (long and
short texts), where `straggling-rank` may speak instead.

Sources: torch.nn.parallel.DistributedDataParallel.join, "Join: a context manager for uneven inputs", and
torch.utils.data.distributed.DistributedSampler, PyTorch documentation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gputune.core.figures import mean
from gputune.core.finding import NO_CHANGE, WORTH_SAYING, Finding, Speedup
from gputune.features import Features, Machine, Process
from gputune.model.minimum_samples import settled
from gputune.model.prediction import ERROR, interval
from gputune.model.rank_team import Team, job, named, team, without
from gputune.model.workload import CROWD

UNEVEN = 1.05  # the largest share over their mean: padding and a last batch are less


def advise(run: Features) -> Iterator[Finding]:
    ranks = job(run)
    counts = _counts(ranks)
    if not counts or max(counts) < UNEVEN * mean(counts):
        return
    batches = [p.batches for p in ranks]
    gain = _of_batches(ranks) if max(batches) >= UNEVEN * mean(batches) else _of_samples(run, ranks, counts)
    unsure = gain is not None and gain.likely >= WORTH_SAYING and not gain.promised
    if gain is not None and unsure and (run.machine.others or 0.0) >= CROWD:
        yield _unpromised(_finding(ranks, counts, gain), run.machine)
    elif gain is not None:
        yield _finding(ranks, counts, gain)


def _of_batches(ranks: Sequence[Process]) -> Speedup | None:
    """Return what equal numbers of batches buy at the pace of the first to be done, up to that of the last.

    As long as the first one works, all do: that is the pace of an equal share. Alone, the last one may be faster. What
    the first batches of a run cost more is paid once, however many follow.
    """
    passes = [[e for lo in p.loaders if lo.training for e in lo.epochs if e.batches] for p in ranks]
    seconds = [sum(e.seconds for e in mine) for mine in passes]
    batches = [sum(e.batches for e in mine) for mine in passes]
    if not all(batches):
        return None
    first = min(range(len(ranks)), key=lambda r: batches[r])
    last = max(range(len(ranks)), key=lambda r: batches[r])
    if batches[last] == batches[first]:  # of very many passes only the latest are known
        return None
    more, loop = mean(batches) - batches[first], max(p.loop for p in ranks)
    overall = seconds[first] / batches[first]
    alone = (seconds[last] - seconds[first]) / (batches[last] - batches[first])
    saved = [seconds[last] - seconds[first] - more * pace for pace in (overall, _pace(ranks[first]) or overall, alone)]
    # Loaders drawn from side by side tell each second several times; a pass under way is longer than its last minute.
    if max(saved) <= 0 or max(seconds) > UNEVEN * loop:
        return None
    ratios = [loop / (loop - s) for s in saved]
    return Speedup(low=min(ratios) * (1 - ERROR), likely=ratios[1], high=max(ratios) * (1 + 2 * ERROR))


def _pace(rank: Process) -> float:
    """Return the s that a batch takes a rank in the steady state; 0 where its loaders have not told.

    Of several loaders that it draws from one after another, those with more batches count for more.
    """
    drawn = [lo for lo in rank.loaders if lo.training and lo.waits and lo.steps]
    batches = sum(lo.batches for lo in drawn)
    return sum((mean(lo.waits) + mean(lo.steps)) * lo.batches for lo in drawn) / batches if batches else 0.0


def _of_samples(run: Features, ranks: Sequence[Process], counts: Sequence[int]) -> Speedup | None:
    """Return what it buys to even out batches that differ in size, if the rank that got most also works longest.

    A batch costs something by itself, and something for each sample: then the mean of what ranks work is what each of
    them would work for as many samples as the others. From round to round each varies as it did, and a round ends with
    the last of them.
    """
    met, loop = team(run), max(p.loop for p in ranks)
    if met is None:
        worked = [max(0.0, p.loop - p.in_loop.get("collective", 0.0)) for p in ranks]
        gain = interval(loop / (loop - max(worked) + mean(worked)), 2 * ERROR)
    else:
        worked, gain = [met.own(member) for member in range(len(met.ranks))], _evened(met)
    return gain if counts[worked.index(max(worked))] == max(counts) else None


def _evened(ranks: Team) -> Speedup:
    """Return what it buys if all ranks work equally long, on average."""
    each = [ranks.own(member) for member in range(len(ranks.ranks))]
    return ranks.gain(without(ranks, [own - mean(each) for own in each]))


def _counts(ranks: Sequence[Process]) -> list[int]:
    """Return how much each rank got: samples where all are known, else batches; [] if too little."""
    if not ranks or not all(p.batches and settled(p) for p in ranks):
        return []
    samples = [p.samples for p in ranks]
    return samples if all(samples) else [p.batches for p in ranks]


def _finding(ranks: Sequence[Process], counts: Sequence[int], gain: Speedup) -> Finding:
    most = max(range(len(ranks)), key=lambda i: counts[i])
    least = min(range(len(ranks)), key=lambda i: counts[i])
    what = "samples" if ranks[most].samples else "batches"
    seconds = max(p.loop for p in ranks)
    return Finding(
        id="uneven-shards",
        says=(
            f"{named([ranks[most]])} got {counts[most]:,} {what}, {named([ranks[least]])} {counts[least]:,}: "
            "who has less waits for who has more"
        ),
        do=(
            "give every rank an equal share: DistributedSampler or drop_last=True, shards that the number of ranks "
            "divides, batches of equal cost"
        ),
        share_lost=1 - 1 / max(1.0, gain.likely),
        speedup=gain,
        basis="an equal share for each rank, at the pace of the time in which all of them worked",
        falsified_by=f"equal shares, and samples/s still below x{gain.low:.2f} of this run's",
        effect="changes-order",
        evidence={
            "most": float(counts[most]),
            "least": float(counts[least]),
            "mean": mean(counts),
            "most_batches": float(max(p.batches for p in ranks)),
            "least_batches": float(min(p.batches for p in ranks)),
            "seconds": seconds,
            "even_s": seconds / gain.likely,
        },
    )


def _unpromised(finding: Finding, machine: Machine) -> Finding:
    """Return the finding without a promise: beside strangers the pace of a rank's batches says little of its own."""
    others = f"others use {machine.others or 0.0:.1f} of the {machine.cpus:g} CPUs"
    return replace(
        finding,
        speedup=NO_CHANGE,
        share_lost=0.0,
        risk=f"{others}: what equal shares bring is sure once these are gone",
        basis="what each rank was given; the pace of its batches is not its own while others use the CPUs",
        falsified_by="equal shares on CPUs of one's own, and no more samples/s",
    )
