"""What a loop would be without workers, as batches show that were made by themselves and steps that nobody was beside.

Both were measured in this very run, one after the other as they would be then. What worker processes cost beside that,
the hand-over and turns at the CPUs, is in neither, and is what goes.
"""

import math
from typing import TYPE_CHECKING

from gputune.core.figures import NORMAL, TINY, deviation_of_mean, mean
from gputune.core.finding import ERROR, MOST_TIMES, Speedup
from gputune.model.minimum_samples import LEAST_SAMPLED

if TYPE_CHECKING:
    from gputune.model.prediction import Outlook


def without_workers(outlook: "Outlook") -> Speedup | None:
    """Return what it brings at the least to make each batch in turn with its step; None where that was not measured.

    At the least: two processes that take turns wait for each other and begin cold each time, and one that does both
    hardly does. For the making that is so beside others as well, so the quicker one counts. Who was asleep a moment ago
    has a CPU at once; who works on and on takes turns with whoever else wants one: strangers on the CPUs stretch both.
    """
    loader, alone = outlook.loader, outlook.loader.alone
    if alone is None or not outlook.now.workers or min(len(alone.makings), len(alone.steps)) < LEAST_SAMPLED:
        return None
    making, stepping = mean(alone.makings), mean(alone.steps)
    usual = outlook.per_batch - sum(mean(series) for series in loader.pauses.values())
    starts = sum(e.start + e.shutdown + max(0.0, e.first_wait - making) for e in loader.epochs if e.batches)
    rounds = max(0.0, outlook.whole - outlook.between - starts) / max(TINY, outlook.per_batch)
    crowd = max(1.0, (1 + outlook.job.others) / outlook.job.cpus)

    def gain(seconds: float) -> float:
        left = outlook.whole - (usual - seconds * crowd - outlook.picking) * rounds - starts
        return min(MOST_TIMES, outlook.whole / max(TINY, left))

    error = NORMAL * math.hypot(deviation_of_mean(alone.makings), deviation_of_mean(alone.steps))
    least = gain(min(making, outlook.making) + stepping + error) / (1 + ERROR + outlook.unsure)
    return Speedup(low=least, likely=least, high=MOST_TIMES, at_least=True)
