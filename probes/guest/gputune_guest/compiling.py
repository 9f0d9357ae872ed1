"""Our own frames, kept out of torch.compile's way.

While compiled code is at work, dynamo looks at every frame that begins, in code that it does not trace as well, and
compiles those that were handed tensors: a wrapper of ours around a collate function would be traced, and warned about
because of the clock it reads. So all code of this package is marked as to be skipped once dynamo is there. What it
calls is looked at as ever; and where a frame that is traced calls a wrapper of ours, that is inlined as ever (law 5).
"""

import sys
import types

from gputune_guest import places


def _code(function):
    """Yield the code of a function, and that of all functions made inside it."""
    stack = [getattr(function, "__code__", None)]
    while stack:
        code = stack.pop()
        if isinstance(code, types.CodeType):
            yield code
            stack.extend(code.co_consts)


def _functions():
    """Yield the functions of this package's modules and of their classes."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == __package__ and isinstance(module, types.ModuleType):
            for value in list(vars(module).values()):
                yield value
                if isinstance(value, type):
                    yield from vars(value).values()


def _hook(module):
    skip = getattr(module, "skip_code", None)
    if skip is None:  # of a torch without it: it warns, and goes on
        return
    for function in _functions():
        for code in _code(function):
            if places.ours(code.co_filename):
                skip(code)


HOOKS = {"torch._dynamo.eval_frame": _hook}
