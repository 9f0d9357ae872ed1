"""The first time that anybody has torch's dynamo compile something: until then, nobody need ask whether it traces.

Every way to it makes an `OptimizeContext`. A torch whose dynamo has none counts as if it were asked from the start.
"""

import sys

from gputune_guest import patching, wrapping

_waiting = []  # what is to be done then
_asked = False


def asked():
    """Return whether something may have been compiled already."""
    return _asked


def compiles_passes():
    """Return whether the backward pass itself is compiled: a hook would be a part of that."""
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(compiled, "compiled_autograd_enabled", False))


def at_first(change):
    """Call `change()` before anything is compiled: now, if that may have been already."""
    if _asked:
        change()
    else:
        _waiting.append(wrapping.quiet(change))  # one that fails keeps no other from being made


def _first():
    global _asked
    _asked = True
    while _waiting:
        _waiting.pop()()


def _compiles(original):
    def before(_args, _kwargs):
        if not _asked:
            _first()

    return wrapping.around(original, before)


def _hook(module):
    context = getattr(module, "OptimizeContext", None)
    if context is None:
        _first()
    else:
        patching.patch(context, "__init__", _compiles)


HOOKS = {"torch._dynamo.eval_frame": _hook}
