"""TorchFunctionModes of ours: how they are put on torch's stack, and taken from it whatever lies on them by then.

Modes are a stack, and theirs would be taken for ours: so ours is put in only where no other one is.
"""

import sys

from gputune_guest.here import fast


def free():
    """Return torch's stack of modes (a module) if it has one and nothing is on it, else None."""
    core = getattr(sys.modules["torch"], "_C", None)
    count = getattr(core, "_len_torch_function_stack", None)
    return None if count is None or count() else core


def took_out(mine):
    """Take our mode from the stack, and leave those of theirs that lie on it; False while torch itself is in it."""
    core = sys.modules["torch"]._C
    above, found = [], False
    while core._len_torch_function_stack() and not found:
        top = core._pop_torch_function_stack()
        found = top is mine
        if not found:
            above.append(top)
    for mode in reversed(above):
        core._push_on_torch_function_stack(mode)
    return found


def _through(_mode, func, _types, args=(), kwargs=None):
    return func(*args, **(kwargs or {}))


through = _through if fast is None else fast.through
