"""What a loader's settings do to what the training learns from: the order and the number of its samples."""

from dataclasses import replace

from gputune.core.finding import Effect
from gputune.features import Loader

BEYOND_ROUNDING = frozenset({"changes-order", "may-duplicate", "changes-learning", "unknown"})  # other rounding is less


def of_moved_work(loader: Loader | None, workers: int) -> Effect:
    """Return what it does to have `workers` workers of a loader (None: there is none) do what the loop does to batches.

    A worker draws from a generator of its own: what the loop has drawn from that of the process, the sampler then draws
    otherwise. A loop that takes its own batches draws them there.
    """
    if loader is None:
        return "changes-order"
    effect = of_workers(replace(loader, draws=None), workers, persistent=loader.persistent_workers)
    return "changes-order" if effect == "same-order" and loader.order not in {"fixed", "own"} else effect


def of_workers(loader: Loader, workers: int, *, persistent: bool) -> Effect:
    """Return what `workers` workers do, which persist if `persistent` says so.

    Read in torch 2.13 and tried: the sampler gives its order out whatever the number of workers, but each of them has a
    random state of its own. As a pass begins, torch draws a seed for workers, with none of them as well, then the
    sampler draws that of its order. So the order of the second pass on is another one

    - where workers begin to persist, or no longer do: no seed is drawn for those that are there already;
    - between no workers and some, where samples draw torch's random numbers: without workers these are the sampler's.

    Neither matters to a sampler that draws nothing, or from nobody else's generator. A sampler that is not torch's may
    draw as it likes: it is taken for one that draws torch's. An iterable dataset is cut into as many parts as there are
    workers, if it asks which of them it runs in; without asking, each worker returns all of it: as many of them
    as now repeat nothing that they do not repeat now.
    """
    if loader.iterable:
        as_many = max(1, workers) == max(1, loader.num_workers)
        return "changes-order" if loader.shards or as_many else "may-duplicate"
    if loader.order == "fixed":
        return "same-order"
    if persistent != loader.persistent_workers:
        return "changes-order"
    moved = (workers == 0) != (loader.num_workers == 0) and loader.draws is not False
    return "changes-order" if moved and loader.order != "own" else "same-order"
