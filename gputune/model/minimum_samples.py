"""How much of a run has to be seen before anything is concluded from it.

Twenty batches of the steady state, as a rule. Eight that are all alike tell as much: a mean to within e needs
(1.96 cv / e)^2 of them, cv being what they vary by.
"""

from collections.abc import Sequence

from gputune.core.figures import NORMAL, deviation_of_mean, mean
from gputune.features import Loader, Process

LEAST_BATCHES = 20  # of the steady state: below them nothing is concluded, unless they are alike
LEAST_SAMPLED = 10  # steps of which the CPU time was read, below which their mean says nothing
LEAST_LOOKS = 30  # at the training thread in its loop, half of a burst: with fewer a share of them says nothing
ALIKE_BATCHES = 8  # below it, not even what they vary by is known
MOSTLY = 0.95  # of the iterators that gave one batch and were left: that is how the loop gets its batches
SURE = 0.05  # of a round, with 95 %: as exact as the model that replays them


def enough(loader: Loader) -> bool:
    """Return whether enough batches of its steady state were seen."""
    return len(loader.waits) >= LEAST_BATCHES or alike(loader)


def alike(loader: Loader) -> bool:
    """Return whether its batches, few as they may be, took so equally long that their means are known.

    Of workers the waits say nothing of that: one batch is waited for, and the next ones lie ready.
    """
    rounds = [w + s for w, s in zip(loader.waits, loader.steps, strict=False)]
    made = [fetch.wall for fetch in loader.fetches]
    if len(rounds) < ALIKE_BATCHES:
        return False
    return sure(made, loader.steps, of=mean(rounds)) if made else sure(rounds, of=mean(rounds))


def single(loader: Loader) -> bool:
    """Return whether each batch was taken from an iterator of its own, of which more could be had."""
    taken = [epoch for epoch in loader.epochs if epoch.batches]
    alone = sum(epoch.batches == 1 and not epoch.complete for epoch in taken)
    return loader.length != 1 and len(taken) >= LEAST_BATCHES and alone >= MOSTLY * len(taken)


def too_few(heard: Sequence[Process]) -> int | None:
    """Return how many batches of the steady state these have, if they are too few to predict from; None where not."""
    loaders = [loader for p in heard for loader in p.loaders if loader.paces]
    # Without a DataLoader a step of the optimizer is what repeats.
    if any(map(enough, loaders)) or any(map(single, loaders)) or (not loaders and any(map(settled, heard))):
        return None
    return max((len(loader.waits) for loader in loaders), default=max(p.optimizer_steps for p in heard))


def settled(process: Process) -> bool:
    """Return whether enough of a process's steady state was seen: of a loader, or without any of its own steps."""
    if process.steps >= LEAST_BATCHES:
        return True
    loaders = [loader for loader in process.loaders if loader.paces]
    return any(map(enough, loaders)) or (not loaders and sure(process.beats, of=mean(process.beats)))


def sure(*series: Sequence[float], of: float) -> bool:
    """Return whether the means of these are all known, together to within `SURE` of so many s."""
    if min(map(len, series)) < ALIKE_BATCHES:
        return False
    return sum(NORMAL * deviation_of_mean(each) for each in series) <= SURE * of
