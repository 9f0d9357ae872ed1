"""Optimizer steps and backward passes: where one round of training ends and the next begins."""

from gputune_guest import (
    device,
    dividing,
    dynamo,
    evaluation,
    forward,
    patching,
    ring,
    samples,
    slowing,
    spans,
    weights,
    wrapping,
)
from gputune_guest.here import Known, fast
from gputune_guest.words import BACKWARD, NO_NEXT, STEP

now = ring.now
here = ring.here

_optimizers = {}  # id of an optimizer to its _Optimizer
_references = {}  # id of an optimizer to a weak reference that forgets it
_count = 0


class _Optimizer(Known):
    """What is kept of an optimizer: its number, how many steps it has made, and a weak reference to it."""

    __slots__ = ("theirs",)

    def __init__(self, number):
        self.number, self.count = number, 0
        self.theirs = None


def _new(optimizer):
    """Return what is kept of an optimizer for as long as it lives, at its first step."""
    global _count
    key = id(optimizer)
    _count += 1
    mine = _Optimizer(_count)
    if ring.untrained:  # the first of this process, or of the run that began in it
        ring.untrained = False
        evaluation.first_optimizer = mine
        spans.train_here()

    _references[key] = mine.theirs = wrapping.when_gone(optimizer, _forget, key)
    _optimizers[key] = mine
    return mine


def _forget(key):
    here.forget()
    _optimizers.pop(key, None)
    _references.pop(key, None)


def _forked():
    """In a forked child: its optimizers are counted anew."""
    global _count
    _count = 0
    _optimizers.clear()
    _references.clear()


wrapping.after_fork(_forked)


def _without_loader(mine, t1):
    """Time what comes before the next module call, in a script that gets its batches without a DataLoader."""
    if mine.number == 1:
        device.stepped(mine, t1)
        weights.end()  # no module was called since the last step
        here.left -= 1
        if here.left <= 0:
            samples.again()
            slowing.stepped(mine, t1)
            forward.begin(NO_NEXT, mine, mine.count, mine.theirs())


def _look(mine, t1):
    """Do what a step may mean to others: `here.look` asks for it."""
    dividing.end()
    evaluation.on_step()
    if here.last is None:
        _without_loader(mine, t1)


def _python_after():
    tracing, swallow = wrapping.compiling(), wrapping.swallow

    def after(optimizer, *_more):
        if tracing():  # while torch.compile traces, this is no step, and we leave nothing in the graph
            return
        try:
            t1 = now()
            mine = _optimizers.get(id(optimizer)) or _new(optimizer)
            mine.count += 1
            here.later(STEP, t1, t1, mine.number)
            if here.look:
                _look(mine, t1)
            if here.timing:
                here.spent += now() - t1
        except Exception as error:
            swallow(error)

    return after


def _after():
    if fast is None:
        return _python_after()
    return fast.Stepped(here, _optimizers, _new, _look, wrapping.swallow).after


def _step_code(original):
    tracing, after = wrapping.compiling(), _after()

    @wrapping.wraps(original)
    def _optimizer_step_code(self, after=after):  # a default is nearer than a cell
        after(self)

    def unless_tracing(optimizer):
        if not tracing():
            after(optimizer)

    def aside():
        _optimizer_step_code.__defaults__ = (unless_tracing,)

    dynamo.at_first(aside)
    return _optimizer_step_code


def _calls_step_code(module):
    """Return whether torch calls a method that does nothing after every optimizer's step."""
    wrapper = getattr(getattr(module.Optimizer, "profile_hook_step", None), "__code__", None)
    inner = wrapper.co_consts if wrapper is not None else ()
    return any("_optimizer_step_code" in getattr(const, "co_names", ()) for const in inner)


def _hook_optimizer(module):
    """Be called after the step of every optimizer, whatever wraps or subclasses it.

    That is by standing in the place of a method that torch calls there, with nothing in it, for its profiler to see
    (which does see ours): where a hook is registered torch walks through its hooks, which takes longer than what ours
    does. Else by torch's own hook after the step. torch before 2.0 has neither, and its steps are not seen. A hook
    before the step would tell when the call began, which nobody asks, and cost as much again.
    """
    if _calls_step_code(module):
        patching.patch(module.Optimizer, "_optimizer_step_code", _step_code)
    elif hasattr(module, "register_optimizer_step_post_hook"):
        handle = module.register_optimizer_step_post_hook(_after())
        ring.at_farewell(handle.remove)


def _began(_args, _kwargs):
    return now()


def _passed(t0, _result, _error):
    t1 = now()
    here.passes += 1
    here.later(BACKWARD, t0, t1, 0)
    if here.look:
        _look_at_pass()
    if here.timing:
        here.spent += now() - t1


def _look_at_pass():
    device.passed()
    evaluation.on_step()
    if device.asks():
        here.look = True  # for the passes after it as well


def _backward(original):
    quick = None if fast is None else fast.Passing(original, here, _look_at_pass, wrapping.swallow)
    return wrapping.traced(original, _began, _passed, quick)


def _hook_backward(module):
    patching.patch(module, "backward", _backward)


HOOKS = {"torch.optim.optimizer": _hook_optimizer, "torch.autograd": _hook_backward}
