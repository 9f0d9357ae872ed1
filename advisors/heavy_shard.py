"""One worker has most of an iterable dataset to read: when the others are done with their parts, it works alone.

What it sees: how many batches each worker of an iterable dataset made, and what one takes. Such a dataset cuts itself
into parts, a shard or some files for each worker, and nobody else makes what belongs to the one with most: a pass takes
as long as that part. The replay deals the same batches out to all workers.

Why it matters: with one file of 900 samples and three of 60, four workers are hardly faster than one, whatever
`num_workers` and `prefetch_factor` say; with fewer shards than workers the others have nothing to read at all.

What to do: cut the data into many shards of equal size, a multiple of `num_workers`; or let every worker read a share
of each shard (`itertools.islice(samples, worker.id, None, worker.num_workers)` with `get_worker_info()`), where reading
past a sample costs little. Several ranks: a multiple of ranks times workers.

When it is wrong: where only this pass was so, as with shards that are drawn anew for each one, and where the heavy
part cannot be read from its middle.

Sources: `torch.utils.data.IterableDataset`, "Split workload across all workers", PyTorch documentation; the model is
`gputune/model/replay.py`.
"""

from collections.abc import Iterator

from gputune.core.finding import WAITING, WORTH_SAYING, Finding, Speedup
from gputune.features import Features
from gputune.model.ceiling import with_ceiling
from gputune.model.prediction import Outlook, outlooks
from gputune.model.shard_imbalance import heavy_part

CHECKLIST = ("data loading", "1.4")


def advise(run: Features) -> Iterator[Finding]:
    for outlook in outlooks(run):
        heavy, gain = heavy_part(outlook.loader), outlook.shared_out()
        if outlook.starving >= WAITING and heavy is not None and gain is not None and gain.likely >= WORTH_SAYING:
            yield with_ceiling(outlook, _finding(outlook, *heavy, gain))


def _finding(outlook: Outlook, worker: int, share: float, speedup: Speedup) -> Finding:
    loader = outlook.loader
    return Finding(
        id="heavy-shard",
        says=(
            f"worker {worker} of {loader.num_workers} makes {share:.0%} of the batches, and is alone at work when the "
            f"others have read their shards: the loop waits {outlook.starving:.0%} of its time"
        ),
        do=(
            f"cut the data into equal shards, a multiple of {loader.num_workers}, or have every worker read a share of "
            "each shard (`get_worker_info()`); more workers bring nothing"
        ),
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis="DataLoader replayed over the measured times of its batches and steps, dealt out evenly to the workers",
        falsified_by=f"samples/s with equal shares for all workers below x{speedup.low:.2f} of this run's",
        effect="changes-order",
        evidence={
            "waiting": outlook.starving,
            "of_one": share,
            "worker": float(worker),
            "batch_s": outlook.making,
            "step_s": outlook.stepping,
            "num_workers": loader.num_workers,
        },
        where=loader.where,
    )
