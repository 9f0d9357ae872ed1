"""What a loader's settings do to what the training learns from: the order and the number of its samples."""

from gputune.features import Loader
from gputune.finding import Effect


def of_workers(loader: Loader, workers: int, *, persistent: bool) -> Effect:
    """Return what `workers` workers do, which persist if `persistent` says so.

    Measured with torch 2.13: the sampler gives its order out whatever the number of workers, but each of them has a
    random state of its own. Between none and some, the sampler itself draws other numbers from the second epoch on, as
    it does when workers persist. An iterable dataset is cut into as many parts as there are workers, if it asks which
    of them it runs in; without asking, each worker returns all of it.
    """
    if loader.iterable:
        return "changes-order" if loader.shards or workers <= 1 >= loader.num_workers else "may-duplicate"
    if (workers == 0) != (loader.num_workers == 0) or persistent != loader.persistent_workers:
        return "changes-order"
    return "same-order"
