"""Horovod's exchange for PyTorch: what the training thread waits for it, numbered so that ranks can be compared.

The exchange itself runs in threads of its library. The training meets it in `synchronize`: of one handle, where
`hvd.allreduce` and the like end, and of a `DistributedOptimizer`, once a step for all of its gradients.
"""

import functools
import sys
import weakref

from gputune_guest import collective, patching, ring, spans, wrapping
from gputune_guest.words import COLLECTIVE

now = spans.now
local = spans.local
_sizes = weakref.WeakKeyDictionary()  # of an optimizer, the bytes of what it exchanges


def _met(original, what, size):
    """Wrap a wait: a span, with the bytes, the call's number and the number of ranks."""

    def before(args, _kwargs):
        t0 = collective.entered()
        return None if t0 is None else (t0, args[0])

    def after(begun, result, _error):
        t0, one = begun
        t1 = now()
        local.depth = 0
        _tell(what, t0, t1, sys._getframe().f_back, size(one, result))

    return wrapping.traced(original, before, after)


def _tell(what, t0, t1, frame, size):
    ident = spans.get_ident()
    trains = ident == spans.here.trainer
    number = collective.numbered() if trains else 0
    ranks = min(0xFFFF, sys.modules["horovod.torch.mpi_ops"].size())  # so many fit beside the record's other fields
    site = spans.site(frame, what)
    ring.record(spans.SPAN, COLLECTIVE, t0, t1, site, size, number, 0 if trains else ident, ranks)


def _gradients(optimizer, _result):
    """Return the bytes of an optimizer's gradients."""
    size = _sizes.get(optimizer)
    if size is None:
        size = sum(each.numel() * each.element_size() for group in optimizer.param_groups for each in group["params"])
        _sizes[optimizer] = size
    return size


def _tensor(_handle, result):
    return collective.bytes_of(result)


def _hook(module):
    make = functools.partial(_met, what="horovod.torch.synchronize", size=_tensor)
    patching.patch(module, "synchronize", make, sys.modules.get("horovod.torch"))


def _hook_optimizer(module):
    make = functools.partial(_met, what="DistributedOptimizer.synchronize", size=_gradients)
    for name in ("_DistributedOptimizer", "_DistributedAdasumOptimizer"):
        kind = getattr(module, name, None)
        if kind is not None:
            patching.patch(kind, "synchronize", make)


HOOKS = {"horovod.torch.mpi_ops": _hook, "horovod.torch.optimizer": _hook_optimizer}
