"""Optimizer steps and backward passes: where one round of training ends and the next begins."""

import functools
import os
import weakref

from gputune_guest import evaluation, forward, patching, ring, samples, spans
from gputune_guest.words import BACKWARD, NO_NEXT, STEP

now = ring.now
here = ring.here

_optimizers = {}  # id of an optimizer to its _Optimizer
_references = {}  # id of an optimizer to a weak reference that forgets it
_count = 0


class _Optimizer:
    """What is kept of an optimizer: its number, and how many steps it has made."""

    __slots__ = ("count", "number")

    def __init__(self, number):
        self.number, self.count = number, 0


def _new(optimizer):
    """Return what is kept of an optimizer for as long as it lives, at its first step."""
    global _count
    key = id(optimizer)
    _count += 1
    mine = _Optimizer(_count)
    if _count == 1:
        evaluation.first_optimizer = mine
        spans.train_here()

    def forget(_reference):
        _optimizers.pop(key, None)
        _references.pop(key, None)

    _references[key] = weakref.ref(optimizer, forget)
    _optimizers[key] = mine
    return mine


def _forked():
    """In a forked child: its optimizers are counted anew."""
    global _count
    _count = 0
    _optimizers.clear()
    _references.clear()


os.register_at_fork(after_in_child=_forked)


def _without_loader(mine, t1):
    """Time what comes before the next module call, in a script that gets its batches without a DataLoader."""
    if mine.number == 1:
        here.left -= 1
        if here.left <= 0:
            samples.again()
            forward.begin(t1, NO_NEXT, mine, mine.count)


def _hook_optimizer(module):  # noqa: C901 - two hooks that share what they know
    """Register torch's own hooks that run around the step of every optimizer, whatever wraps or subclasses it.

    torch before 2.0 has none: its steps are not seen.
    """
    if not hasattr(module, "register_optimizer_step_pre_hook"):
        return
    tracing = spans.compiling()

    known = _optimizers.get

    def before(optimizer, args, kwargs, tracing=tracing):  # a default is nearer than a cell: see loader.py
        if not tracing():  # while torch.compile traces, this is no step, and we leave nothing in the graph
            here.stepped = now()

    def after(optimizer, args, kwargs, tracing=tracing, known=known, number=id):  # noqa: PLR0913, PLR0917 - see before
        if not tracing():
            t1 = now()
            try:
                mine = known(number(optimizer))
                if mine is None:
                    mine = _new(optimizer)
                mine.count += 1
                late = here.late
                late.append((STEP, here.stepped, t1, mine.number))
                if t1 - late[0][2] > ring.SOON:
                    ring.flush()
                if here.look:
                    evaluation.on_step()
                    if here.last is None:
                        _without_loader(mine, t1)
                if here.timing:
                    here.spent += 2 * (now() - t1)  # the hook before the step takes as long
            except Exception as error:
                ring.failed(error)

    handles = [module.register_optimizer_step_pre_hook(before), module.register_optimizer_step_post_hook(after)]
    ring.at_farewell(lambda: [handle.remove() for handle in handles])


def _passed(t0):
    try:
        t1 = now()
        ring.later(BACKWARD, t0, t1, 0)
        if here.look:
            evaluation.on_step()
        if here.timing:
            here.spent += now() - t1
    except Exception as error:
        ring.failed(error)


def _hook_backward(module):
    tracing = spans.compiling()

    def backward(original):
        @functools.wraps(original)
        def wrapper(*args, **kwargs):
            if tracing():
                return original(*args, **kwargs)
            t0 = now()
            try:
                return original(*args, **kwargs)
            finally:
                _passed(t0)

        return wrapper

    patching.patch(module, "backward", backward)


HOOKS = {"torch.optim.optimizer": _hook_optimizer, "torch.autograd": _hook_backward}
