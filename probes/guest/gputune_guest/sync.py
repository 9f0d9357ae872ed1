"""Where the training thread waits for the device, and copies to it.

Tensor methods are patched only where torch is built for a device, or `GPUTUNE_GUEST_SYNC=1` asks for it (our tests),
and record only for tensors on one.
"""

import functools
import os
import sys

from gputune_guest import patching, spans
from gputune_guest.words import COPY_H2D, SYNC

PINNED, NON_BLOCKING = 1, 2  # bits of field c of a copy

now = spans.now
local = spans.local


def _forced():
    return os.environ.get("GPUTUNE_GUEST_SYNC") == "1"


def has_device(torch):
    """Return whether this torch was built for CUDA or ROCm."""
    version = getattr(torch, "version", None)
    return bool(getattr(version, "cuda", None) or getattr(version, "hip", None))


def _hook_tensor(module):
    torch = sys.modules["torch"]
    if not (has_device(torch) or _forced()):
        return
    wanted = (lambda args: True) if _forced() else (lambda args: args[0].is_cuda)
    for name in ("item", "cpu", "tolist", "numpy"):
        patching.patch(module.Tensor, name, spans.timed(SYNC, "Tensor." + name, wanted=wanted))
    for kind in ("float", "int", "bool"):  # `if loss > x` asks for the last one; they reach the device in C
        patching.patch(module.Tensor, "__%s__" % kind, spans.timed(SYNC, kind + "(tensor)", wanted=wanted))
    for name in ("to", "cuda"):
        patching.patch(module.Tensor, name, _copy)


def _copy(original):
    """Wrap `Tensor.to` and `Tensor.cuda`: a copy to a device is recorded, and one back that is waited for.

    Any other use is not.
    """
    tracing = spans.compiling()
    forced = _forced()
    what = "Tensor." + original.__name__

    @functools.wraps(original)
    def wrapper(self, *args, **kwargs):
        if tracing() or spans.silent or local.depth or spans.in_next():
            return original(self, *args, **kwargs)
        t0 = now()
        result = original(self, *args, **kwargs)
        if self.is_cuda:
            if not (result is self or result.is_cuda or kwargs.get("non_blocking")):
                spans.write(SYNC, t0, now(), what, sys._getframe().f_back)
            return result
        if result is not self and (result.is_cuda or forced):
            t1 = now()
            try:
                bits = NON_BLOCKING if kwargs.get("non_blocking") or True in args[1:] else 0
                if self.is_pinned():
                    bits |= PINNED
                size = self.element_size() * self.nelement()
                spans.write(COPY_H2D, t0, t1, what, sys._getframe().f_back, size, bits)
            except Exception as error:
                spans.ring.failed(error)
        return result

    return wrapper


def _hook_cuda(module):
    patching.patch(module, "synchronize", spans.timed(SYNC, "torch.cuda.synchronize"))


def _hook_streams(module):
    for kind in ("Event", "Stream"):
        owner = getattr(module, kind, None)
        if owner is not None:
            patching.patch(owner, "synchronize", spans.timed(SYNC, "torch.cuda.%s.synchronize" % kind))


HOOKS = {"torch": _hook_tensor, "torch.cuda": _hook_cuda, "torch.cuda.streams": _hook_streams}
