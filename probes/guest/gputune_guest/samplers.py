"""Whether a sampler draws random numbers that the training shares as it goes: how far ahead it is asked matters then.

Torch's own draw what they need as a pass begins, or from a generator of their own. Of any other one that is known once
a whole pass was seen in which nothing moved but between its indices; of an endless one, as many indices as a pass over
the dataset would have. Looked at in a real training that is steered only.
"""

import math
import sys
import weakref

from gputune_guest import ring, settings, wrapping
from gputune_guest.randomness import randomness

PLAIN = ("SequentialSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler")
_looks = weakref.WeakKeyDictionary()  # an iterator of theirs to what is seen of its pass
_known = {}  # where a loader is built and the kinds of its samplers to whether these draw as they go
wrapping.at_last(_known.clear)


class _Look:
    """What is seen of one pass of a loader."""

    __slots__ = ("began", "key", "left")

    def __init__(self, key, left):
        self.key, self.left = key, left  # left: indices, after which what an endless pass draws is known
        self.began = False  # its first index is there, which is asked for as the pass begins

    def over(self, drew):
        """Keep what a pass has shown."""
        _known[self.key] = drew or _known.get(self.key, False)


def observe(theirs, of):
    """Look at the pass that an iterator of theirs begins, where its sampler is not known."""
    try:
        where = settings.place(of)[0]
        if draws(of, where) is None:
            samples = len(of.dataset) if hasattr(of.dataset, "__len__") else math.inf
            _looks[theirs] = _Look(_key(of, where), samples / (of.batch_size or 1))
    except Exception as error:
        ring.failed(error)


def draws(of, where):
    """Return whether the sampler of a loader built there draws as it goes; None where that is not known yet."""
    return False if _settled(of) else _known.get(_key(of, where))


def _key(of, where):
    return where, type(of.sampler), type(of.batch_sampler)


def _settled(of):
    """Return whether indices come from samplers of torch's own, which draw nothing that is shared as they go."""
    if of._dataset_kind != 0:  # _DatasetKind.Map: else these are no indices of anything
        return True
    data = sys.modules["torch.utils.data"]
    sampler = getattr(of, "batch_sampler", None)
    if sampler is not None and not _iterates_as(sampler, data.BatchSampler):
        return False
    sampler = of.sampler if sampler is None else sampler.sampler
    kinds = [getattr(data, name) for name in PLAIN]
    distributed = sys.modules.get("torch.utils.data.distributed")
    if distributed is not None:
        kinds.append(distributed.DistributedSampler)
    shared = getattr(sampler, "generator", None) is sys.modules["torch"].default_generator
    return not shared and any(_iterates_as(sampler, kind) for kind in kinds)


def _iterates_as(sampler, kind):
    """Return whether the indices of a sampler are made by that kind's own code."""
    return isinstance(sampler, kind) and type(sampler).__iter__ is kind.__iter__


def _states():
    """Return the states that everybody shares; something that equals nothing where they cannot be read."""
    try:
        return randomness()
    except Exception as error:
        ring.failed(error)
        return object()


def watched(original):
    """Return what stands in the place of `_next_index`, by which torch asks a sampler."""

    def before(args, _kwargs):
        look = _looks.get(args[0]) if _looks else None
        return None if look is None else (args[0], look, _states())

    def after(begun, _result, error):
        theirs, look, states = begun
        if error is not None:
            if isinstance(error, StopIteration):
                look.over(drew=False)
                _looks.pop(theirs, None)
            return
        look.left -= 1
        drew = look.began and states != _states()
        look.began = True
        if drew or look.left <= 0:
            look.over(drew)
            _looks.pop(theirs, None)

    return wrapping.opaque(wrapping.around(original, before, after))
