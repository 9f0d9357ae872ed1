"""Optimizer steps and backward passes: where one round of training ends and the next begins."""

import functools
import os
import weakref

from gputune_guest import evaluation, patching, ring, spans
from gputune_guest.words import BACKWARD, STEP

now = ring.now
record = ring.record

_began = {}  # id of an optimizer to the t0 of its step that is under way
_numbers = {}  # id of an optimizer to its number
_known = {}  # id of an optimizer to a weak reference that forgets it
_count = 0


def _number(optimizer):
    """Return a small number for an optimizer, for as long as it lives."""
    global _count
    key = id(optimizer)
    number = _numbers.get(key)
    if number is None:
        _count += 1
        if _count == 1:
            spans.train_here()
        number = _numbers[key] = _count
        _known[key] = weakref.ref(optimizer, lambda _ref: (_numbers.pop(key, None), _known.pop(key, None)))
    return number


def _forked():
    """In a forked child: its optimizers are counted anew."""
    global _count
    _count = 0
    _numbers.clear()
    _began.clear()


os.register_at_fork(after_in_child=_forked)


def _hook_optimizer(module):
    """Register torch's own hooks that run around the step of every optimizer, whatever wraps or subclasses it.

    torch before 2.0 has none: its steps are not seen.
    """
    if not hasattr(module, "register_optimizer_step_pre_hook"):
        return
    compiling = spans.compiling()

    def before(optimizer, args, kwargs):
        if not compiling():  # while torch.compile traces, this is no step, and we leave nothing in the graph
            _began[id(optimizer)] = now()

    def after(optimizer, args, kwargs):
        if not compiling():
            t1 = now()
            t0 = _began.pop(id(optimizer), 0)
            if t0:
                number = _numbers.get(id(optimizer)) or _number(optimizer)
                record(STEP, 0, t0, t1, number)
                evaluation.on_step(number)

    handles = [module.register_optimizer_step_pre_hook(before), module.register_optimizer_step_post_hook(after)]
    ring.at_farewell(lambda: [handle.remove() for handle in handles])


def _hook_backward(module):
    compiling = spans.compiling()

    def backward(original):
        @functools.wraps(original)
        def wrapper(*args, **kwargs):
            if compiling():
                return original(*args, **kwargs)
            t0 = now()
            try:
                return original(*args, **kwargs)
            finally:
                record(BACKWARD, 0, t0, now())
                evaluation.on_step(0)

        return wrapper

    patching.patch(module, "backward", backward)


HOOKS = {"torch.optim.optimizer": _hook_optimizer, "torch.autograd": _hook_backward}
