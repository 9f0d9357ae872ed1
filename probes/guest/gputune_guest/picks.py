"""How long a batch sampler takes to say which samples the next batch is made of.

That is in the training process, with workers too: torch asks it inside of a `next()`, and as iterators come to life.
Most take microseconds; one that sorts or packs lengths as it is asked may take longer than the step. Only those are
told.
"""

from gputune_guest import patching, ring, wrapping
from gputune_guest.here import fast
from gputune_guest.words import PICK

now = ring.now
NOTED = 100_000  # ns; below it, a batch sampler is no part of a step that anybody would notice


def timed(original):
    """Return what stands in the place of `_next_index`: in C, or else the same in Python."""
    if fast is None:
        return wrapping.opaque(wrapping.around(original, _began, _picked))
    return wrapping.opaque(wrapping.wraps(original)(fast.Passing(original, ring.here, None, wrapping.swallow)))


def _began(_args, _kwargs):
    return now()


def _picked(t0, _result, _error):
    t1 = now()
    if t1 - t0 >= NOTED:
        ring.record(PICK, 0, t0, t1)


def _hook(module):
    patching.patch(module._BaseDataLoaderIter, "_next_index", timed)


HOOKS = {"torch.utils.data.dataloader": _hook}
