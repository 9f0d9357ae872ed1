"""Whether samples draw random numbers where they are made: then another number of workers makes other samples of them.

Looked at in the first batches of each dataset that the training process makes itself: the states that everybody shares,
of torch, `random` and numpy, before and after. Draws from these also move what the training draws, and its sampler.
In a training that may be steered (`GPUTUNE_STEER`) workers look as well, and at generators that the dataset holds.
"""

import os

from gputune_guest import ring, wrapping
from gputune_guest.randomness import held, randomness

_left = {}  # id of a dataset to the looks that are left for it
_drawn = set()


def _fetch(original):
    steered = bool(os.environ.get("GPUTUNE_STEER"))

    def before(args, _kwargs):
        if not steered and ring.is_worker():
            return None
        dataset = getattr(args[0], "dataset", None)
        left = _left.get(id(dataset), 4)  # batches of a dataset that are looked at
        if not left or len(_left) > 32:  # that are looked at in a process
            return None
        _left[id(dataset)] = left - 1
        held = dataset if steered else None
        return _looked(held), held, left

    def after(begun, _result, _error):
        earlier, held, left = begun
        _compare(earlier, _looked(held), last=left == 1)

    return wrapping.around(original, before, after)


def _looked(dataset):
    try:
        return dict(randomness(), own=held(dataset))
    except Exception as error:
        ring.failed(error)
        return {}


def _compare(before, after, last):
    moved = {name for name in after if after[name] != before.get(name, after[name])}
    if moved - _drawn or (last and not _drawn):
        _drawn.update(moved)
        ring.note(n="draws", of=sorted(_drawn), inline=not ring.is_worker())


def _hook(module):
    for kind in (module._MapDatasetFetcher, module._IterableDatasetFetcher):
        wrapping.put(kind, "fetch", _fetch)


def _forked():
    _left.clear()
    _drawn.clear()


wrapping.after_fork(_forked)
HOOKS = {"torch.utils.data._utils.fetch": _hook}
