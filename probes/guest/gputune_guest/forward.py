"""How long the training thread works on a batch before a torch module sees it: data work in the loop itself.

For sampled steps (samples.py) a forward hook common to all modules is registered when `next()` returns (or, in a
script that has got no batch from a DataLoader, when an optimizer has made its step), and takes itself back at the first
call: the modules of all other steps run on torch's short path. torch.compile would trace such a hook, or guard on it,
so none is registered once the script has called it, or something else has had a frame compiled. (That dynamo was
imported says nothing: every optimizer does it.)
"""

import sys

from gputune_guest import dynamo, patching, precision, ring, spans, weights, wrapping
from gputune_guest.words import FORWARD, LOOKED

here = ring.here
now = ring.now

_register = None
_handle = None
_compiles = False  # torch.compile was called
FEWER = 2  # times as many numbers go into a call of the training: then another one takes fewer samples
_most = 0  # numbers that went into the first call of any sampled step
_window = None  # (its begin, code, object, its count): the step that is waited in, and how to know that it is over


def begin(code, whose, count, optimizer=None):
    """Wait for the first module call from now on, as long as `whose.count` is `count`: else the step is over.

    What torch does until then to the weights of `optimizer`, and on the device, is told as well, where that is due.
    """
    global _window, _handle
    if here.phase is not None or spans.silent or spans.get_ident() != here.trainer or not may_hook():
        return
    if _handle is None:
        _handle = hook(_hooked)
    if here.burst is not None:
        ring.end_burst()  # what was logged before is no part of it
    weights.begin(optimizer)
    _window = (now(), code, whose, count)


def may_hook():
    """Return whether a hook may be in place now: torch.compile would trace it, or guard on it."""
    return _register is not None and not (_compiles or dynamo.asked() or _compiled())


def hook(function):
    """Return the handle of a hook before the call of any module."""
    return _register(function)


def takes_fewer(args):
    """Return whether a call with such arguments takes fewer samples at a time than those of the training do."""
    return 0 < FEWER * _numbers(args) <= _most


def _numbers(args):
    """Return how many numbers go into a call, 0 where the first argument is no tensor."""
    first = args[0] if args else None
    return first.numel() if isinstance(first, getattr(sys.modules["torch"], "Tensor", ())) else 0


def _compiled():
    """Return whether dynamo has compiled anything, by whatever way it was asked to."""
    utils = sys.modules.get("torch._dynamo.utils")
    counters = getattr(utils, "counters", None)
    return bool(counters) and bool(counters.get("frames"))


def _called(module, args):
    global _window, _handle, _most
    if spans.get_ident() != here.trainer:
        return
    t1 = now()
    looked = weights.end()
    window, _window = _window, None
    handle, _handle = _handle, None
    if handle is not None:
        handle.remove()
    if window is not None and here.phase is None and window[2].count == window[3]:
        on_weights, on_device, own = looked or (0, 0, 0)
        _most = max(_most, _numbers(args))
        code = window[1] | (LOOKED if looked else 0)
        ring.record(FORWARD, code, min(t1, window[0] + own), t1, on_weights, on_device)
        precision.look(module)


_hooked = wrapping.quiet(_called)


def _hook(module):
    global _register
    _register = getattr(module, "register_module_forward_pre_hook", None)


def _compile(original):
    def before(_args, _kwargs):
        global _compiles
        _compiles = True
        _leave()

    return wrapping.around(original, before)


def _leave():
    """Wait for no module any more: nothing of ours may be in place while something is compiled, or exported."""
    global _window, _handle
    weights.end()
    handle, _handle = _handle, None
    _window = None
    if handle is not None:
        handle.remove()


def _farewell():
    global _register
    _register = None
    _leave()


ring.at_farewell(_farewell)
dynamo.at_first(_leave)
wrapping.after_fork(_leave)
HOOKS = {
    "torch.nn.modules.module": _hook,
    "torch": lambda torch: patching.patch(torch, "compile", _compile),
}
