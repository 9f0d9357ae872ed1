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

from gputune.enough import settled
from gputune.features import Features, Process
from gputune.figures import mean
from gputune.finding import Finding, Speedup
from gputune.prediction import ERROR
from gputune.team import job, named

UNEVEN = 1.05  # the largest share over their mean: padding and a last batch are less


def advise(run: Features) -> Iterator[Finding]:
    ranks = job(run)
    counts = _counts(ranks)
    if not counts or max(counts) < UNEVEN * mean(counts):
        return
    seconds = max(p.loop for p in ranks)
    batches = [p.batches for p in ranks]
    saved = _of_batches(ranks) if max(batches) >= UNEVEN * mean(batches) else _of_samples(ranks, counts)
    if max(saved) > 0:
        yield _finding(ranks, counts, seconds, [seconds - s for s in saved])


def _of_batches(ranks: Sequence[Process]) -> tuple[float, float]:
    """Return the s saved by equal numbers of batches, at the pace of the first to be done, and of the last.

    As long as the first one works, all do: that is the pace of an equal share. Alone, the last one may be faster.
    """
    passes = [[e for lo in p.loaders if lo.training for e in lo.epochs if e.batches] for p in ranks]
    seconds = [sum(e.seconds for e in mine) for mine in passes]
    batches = [sum(e.batches for e in mine) for mine in passes]
    if not all(batches):
        return 0.0, 0.0
    first = min(range(len(ranks)), key=lambda r: batches[r])
    last = max(range(len(ranks)), key=lambda r: batches[r])
    usual = mean(batches)
    return seconds[last] - usual * seconds[first] / batches[first], seconds[last] - usual * seconds[last] / batches[
        last
    ]


def _of_samples(ranks: Sequence[Process], counts: Sequence[int]) -> tuple[float, float]:
    """Return the s saved where batches of equal number differ in size: likely, and at the least.

    A batch costs something by itself, and something for each sample: then the mean of what ranks work is what each of
    them works for as many samples. At the least each keeps its own pace a sample.
    """
    worked = [max(0.0, p.loop - p.in_loop.get("collective", 0.0)) for p in ranks]
    usual = mean(counts)
    paced = max(work * usual / count for work, count in zip(worked, counts, strict=True))
    return max(worked) - mean(worked), max(worked) - paced


def _counts(ranks: Sequence[Process]) -> list[int]:
    """Return how much each rank got: samples where all are known, else batches; [] if too little."""
    if not ranks or not all(p.batches and settled(p) for p in ranks):
        return []
    samples = [p.samples for p in ranks]
    return samples if all(samples) else [p.batches for p in ranks]


def _finding(ranks: Sequence[Process], counts: Sequence[int], seconds: float, even: Sequence[float]) -> Finding:
    most = max(range(len(ranks)), key=lambda i: counts[i])
    least = min(range(len(ranks)), key=lambda i: counts[i])
    what = "samples" if ranks[most].samples else "batches"
    ratios = [seconds / each for each in even]
    gain = Speedup(low=min(ratios) * (1 - ERROR), likely=ratios[0], high=max(ratios) * (1 + 2 * ERROR))
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
            "even_s": even[0],
        },
    )
