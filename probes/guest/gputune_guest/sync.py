"""Where the training thread waits for the device, and copies to it.

Tensor methods are patched only where torch is built for a device, or `GPUTUNE_GUEST_SYNC=1` asks for it (our tests),
and record only for tensors on one.
"""

import os
import sys

from gputune_guest import patching, peers, spans, wrapping
from gputune_guest.words import COPY_H2D, SYNC

PINNED, NON_BLOCKING = 1, 2  # bits of field c of a copy

now = spans.now
here = spans.here
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
    patching.patch(module.Tensor, "copy_", _fill)


def _copy(original):
    """Wrap `Tensor.to` and `Tensor.cuda`: a copy to a device is recorded, and one back that is waited for.

    Any other use is not.
    """
    forced = _forced()
    what = "Tensor." + original.__name__
    usual = "cuda" if original.__name__ == "cuda" else None

    def before(args, kwargs):
        if spans.silent or local.depth or (here.waiting and spans.in_next()):
            return None
        given = args[1:], kwargs
        meeting = spans.meeting  # each batch comes by here, and few steps are timed
        step = None if meeting is None or meeting.clock.current is None else _meets(args[0], _target(*given, usual))
        return args[0], given, step, now()

    def after(begun, result, _error):
        tensor, given, step, t0 = begun
        if isinstance(step, peers.Crossing):
            peers.after(step, result)
        elif result is not None or step is not None:
            _copied(tensor, result, given, (t0, now()), (what, forced, step))

    return wrapping.traced(original, before, after)


def _fill(original):
    """Wrap `Tensor.copy_` likewise, by which what is on a device already is filled from the host, or the other way."""
    forced = _forced()

    def before(args, kwargs):
        if spans.silent or local.depth or len(args) < 2 or (here.waiting and spans.in_next()):
            return None
        there, tensor = args[:2]
        if not forced and there.is_cuda == getattr(tensor, "is_cuda", there.is_cuda):
            return None
        meeting = spans.meeting
        step = None if meeting is None else meeting.before(copy=not tensor.is_cuda)
        return tensor, there, (args[1:], kwargs), step, now()

    def after(begun, _result, error):
        tensor, there, given, step, t0 = begun
        if error is None or step is not None:
            _copied(tensor, None if error else there, given, (t0, now()), ("Tensor.copy_", forced, step))

    return wrapping.traced(original, before, after)


def _target(args, kwargs, usual):
    """Return what a tensor is to become as the call says it: a device, its number or name, or a type."""
    given = args[0] if args else kwargs.get("device", kwargs.get("other", usual))
    return getattr(given, "device", given)  # as another tensor is


def _meets(tensor, target):
    """Have the device's clock know that a tensor may be about to be copied.

    Returns the step if it is timed there, or what a device that is timed will wait for another one for.
    """
    if tensor.is_cuda and not str(target).startswith("cpu"):
        return peers.before(tensor, target)
    return spans.meeting.before(copy=not tensor.is_cuda)


def _copied(tensor, result, given, times, known):
    """Tell what became of a call; `result` is None where it failed."""
    what, forced, step = known
    try:
        there, other = tensor.is_cuda, result is not None and result is not tensor
        copied = other and not there and (result.is_cuda or forced)
        bits = _bits(tensor, *given) if other and (there or copied) else 0
        back = other and there and not (result.is_cuda or bits & NON_BLOCKING)
        size = tensor.element_size() * tensor.nelement() if copied else 0
        if step is not None:
            waited = back or bits != PINNED | NON_BLOCKING
            spans.meeting.after(step, waited=waited, dropped=not (back or copied), size=size)
        if back:
            spans.write(SYNC, *times, what, sys._getframe().f_back)
        elif copied:
            spans.write(COPY_H2D, *times, what, sys._getframe().f_back, size, bits)
    except Exception as error:
        spans.ring.failed(error)


def _bits(tensor, args, kwargs):
    """Return how a tensor is copied: from page-locked memory, and without waiting."""
    bits = NON_BLOCKING if kwargs.get("non_blocking") or True in args[1:] else 0
    return bits if tensor.is_cuda or not tensor.is_pinned() else bits | PINNED


def _hook_cuda(module):
    patching.patch(module, "synchronize", spans.timed(SYNC, "torch.cuda.synchronize"))


def _hook_streams(module):
    for kind in ("Event", "Stream"):
        owner = getattr(module, kind, None)
        if owner is not None:
            patching.patch(owner, "synchronize", spans.timed(SYNC, "torch.cuda.%s.synchronize" % kind))


HOOKS = {"torch": _hook_tensor, "torch.cuda": _hook_cuda, "torch.cuda.streams": _hook_streams}
