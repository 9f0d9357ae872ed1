"""Evaluation phases: from `model.eval()`, or from a loader iterated with gradients off, until training goes on.

Nobody says "evaluation", so it is concluded, and doubt means that there was none:

- `eval()` on an outermost module opens a phase, and so does a new iterator while gradients are off.
- `train()` closes it, and so does the next batch of an iterator that is older than the phase, or a new iterator of a
  loader that was seen to train.
- A step or a backward pass in between says that training goes on: the phase is closed where it was last seen to be one
  (at the end of an inner iterator, or at a batch that came with gradients off), or forgotten. That is the frozen
  teacher in eval mode.
- A phase with neither an iterator in it nor gradients off counts only if it comes less often than every step, and than
  every batch, of which several steps may be made. A generator put into eval mode for each discriminator step does not.

- A phase between `eval()` and `train()` in a script that takes no batches from a loader is a rollout if its model is
  first called with fewer samples than the training learns from at a time: a policy takes what its environments have at
  a moment, and who evaluates, with no gradients to keep, takes as many as always or more.

Its place is where the training calls for it, and not the line of a helper that says `eval()`: the innermost frame of a
function under which steps were made, or batches asked for with gradients on, as well.

Whether a phase draws random numbers is looked at where it begins and ends (`drawing.py`). An iterator draws its seed as
it is constructed, which is before it opens a phase, and closes one.
"""

import sys

from gputune_guest import drawing, dynamo, forward, patching, places, ring, spans, wrapping
from gputune_guest.words import END, EVALUATION, SPAN

now = ring.now
local = spans.local
here = ring.here

SELDOM = 2  # steps of the first optimizer, or batches, between two phases that nothing else confirms
NOWHERE = 0, 0, 0  # as `reached` returns, before anything was trained
ROLLOUT = "rollout"  # of a phase where these are loaded: such scripts let a model act to get what it learns from
ENVIRONMENTS = ("gymnasium", "gym", "pettingzoo", "dm_env", "envpool", "isaacgym", "mujoco", "pyspiel", "torchrl")

LOOKS, DEEP = 8, 64  # steps and iterators whose callers are learnt, and frames of each
_callers = {}  # id of a user's code object that lay around a step or a training iterator, to the object
_looks = 0
_trains = set()  # ids of loaders between whose batches a step was made
first_optimizer = None  # what step.py keeps of it
_before = NOWHERE  # what was reached at the end of the last phase that had no iterator in it
_born = 0  # iterators that came to life or began again so far
_phases = 0  # that opened so far
_early = None  # the states of random generators before an iterator that may open a phase was constructed


class _Phase:
    """A phase that is open: `certain` when gradients were off, `seen` when it had a batch, `proved` until when."""

    __slots__ = ("acts", "certain", "first", "handle", "look", "proved", "seen", "site", "t0")

    def __init__(self, t0, first, certain, site, look):
        self.t0, self.first, self.certain, self.site, self.look = t0, first, certain, site, look
        self.seen = False
        self.proved = 0
        self.acts = 0  # its site, should it be a rollout
        self.handle = None  # of a hook, until it calls a model

    def watch(self, acts):
        """Have it looked at what its model is called with."""
        self.acts, self.handle = acts, forward.hook(_called_with)

    def let_go(self):
        """Take the hook back."""
        handle, self.handle = self.handle, None
        if handle is not None:
            handle.remove()


def _looked_at(_module, args):
    phase = here.phase
    if phase is not None and spans.get_ident() == here.trainer:
        phase.let_go()
        if forward.takes_fewer(args):
            phase.site = phase.acts


_called_with = wrapping.quiet(_looked_at)


def _open(t0, first, certain, frame, early=None):
    global _phases
    _phases += 1
    here.look = True
    here.phase = _Phase(t0, first, certain, site(frame), drawing.begin(EVALUATION, early))
    ring.since(t0)


def phases():
    """Return how many phases have opened."""
    return _phases


def site(frame):
    """Return where the training calls for an evaluation that `frame` is of."""
    return spans.site(_called(frame), _kind())


def _called(frame):
    """Return the innermost frame, from `frame` outwards, whose function the training runs in as well, else `frame`."""
    found = frame
    for _ in range(DEEP):
        if found is None or id(found.f_code) in _callers:
            break
        found = found.f_back
    return found if found is not None and id(found.f_code) in _callers else frame


def _learn(frame):
    """Take the user's functions that lie around a step."""
    global _looks
    _looks += 1
    for _ in range(DEEP):
        if frame is None:
            return
        if places.is_users(frame):
            _callers[id(frame.f_code)] = frame.f_code
        frame = frame.f_back


def _kind():
    return ROLLOUT if any(name in sys.modules for name in ENVIRONMENTS) else "evaluation"


def _close(t1, confirmed=False, surely=False):
    global _before
    mine, here.phase = here.phase, None
    mine.let_go()
    ring.since(0)
    if mine.seen or mine.certain or confirmed:
        drawing.end(mine.look, surely)
        ring.record(SPAN, EVALUATION, mine.t0, t1, mine.site)
    if not mine.seen:
        _before = reached()


def reached():
    """Return how far the training is: its steps, the birth of the iterator that serves it, and batches of that."""
    last = here.last
    return (steps(), 0, 0) if last is None else (steps(), last.born, last.count)


def is_seldom(before):
    """Return whether what comes now, and came when `before` was reached, comes neither every step nor every batch."""
    made, born, count = reached()
    next_one = (born, count) == (before[1], before[2] + 1)
    anew = before[1] and born != before[1] and count == 1 < before[2]  # and came behind a later batch of the last pass
    return made - before[0] >= SELDOM and not next_one and not anew


def steps():
    """Return how many steps the first optimizer has made; without any optimizer a backward pass is one."""
    return first_optimizer.count if first_optimizer is not None else here.passes


def begun():
    """Return whether anything was trained yet, or a loader asked for what to train on."""
    return bool(_born or steps())


def on_batch(mine, t0, t1, code):
    """Take notice of a `next()` that took from `t0` to `t1` while a phase is open."""
    if spans.get_ident() != here.trainer:
        return
    if mine.born < here.phase.first:
        _close(t0)
        on_other(mine)
    else:
        here.phase.seen = True
        if code == END or not mine.grad:
            here.phase.proved = t1
        if code == END and here.phase.look is not None:
            here.phase.look.still()


def before_iterator(grad):
    """Take notice that an iterator is about to be constructed, or to begin again, with gradients or without."""
    global _early
    _early = None
    if spans.silent or spans.get_ident() != here.trainer:
        return
    phase = here.phase
    if phase is None:
        if not grad and drawing.is_due(EVALUATION):
            _early = drawing.states()
    elif phase.look is not None:
        phase.look.still()


def on_iterator(mine, loader, t0, frame):
    """Take notice of an iterator of a loader that came to life, or began again, at `t0`."""
    global _born
    _born += 1
    mine.born = _born
    if spans.get_ident() != here.trainer or spans.silent:
        return
    if here.phase is None:
        if not mine.grad:
            _open(t0, _born, True, frame, _early)
        elif _looks < LOOKS:
            _learn(frame)  # an evaluation may come before the first step
    elif mine.grad and mine.loader in _trains:
        _close(t0)
    if here.phase is None:
        drawing.trains(loader)


def on_other(mine):
    """Take notice of a batch, outside of all phases, of another iterator than the last one."""
    here.last = mine
    here.look = True


def on_step():
    """Take notice of an optimizer step or a backward pass, while `here.look` asks for it."""
    if _looks < LOOKS:
        _learn(sys._getframe())
    if here.last is not None:
        _trains.add(here.last.loader)
        here.look = False  # until a phase opens or another iterator comes
    if here.phase is None:
        return
    if spans.get_ident() != here.trainer:
        here.look = True
    elif here.phase.proved:
        _close(here.phase.proved)
    else:
        here.phase.let_go()
        here.phase = None
        ring.since(0)


def _train(original):
    def before(args, kwargs):
        if local.modes:
            return None
        local.modes = True  # train() and eval() call train() of every module inside
        return args, kwargs

    def after(begun, _result, _error):
        args, kwargs = begun
        local.modes = False
        _mode(args[1] if len(args) > 1 else kwargs.get("mode", True), sys._getframe().f_back)

    return wrapping.traced(original, before, after)


def _mode(training, frame):
    if spans.get_ident() != here.trainer or spans.silent:
        return
    if training and here.phase is not None:
        _close(now(), confirmed=is_seldom(_before), surely=True)
    elif not training and here.phase is None:
        _open(now(), _born + 1, not sys.modules["torch"].is_grad_enabled(), frame)
        if here.last is None and forward.may_hook():
            here.phase.watch(spans.site(_called(frame), ROLLOUT))


def _leave():
    """Leave no hook in place once something is compiled."""
    if here.phase is not None:
        here.phase.let_go()


def _forked():
    global _before, _born, _early, _looks, _phases, first_optimizer
    first_optimizer = _early = None
    _before = NOWHERE
    _born = _looks = _phases = 0
    _callers.clear()
    _trains.clear()


ring.at_farewell(_leave)
dynamo.at_first(_leave)
wrapping.after_fork(_forked)


def _hook(module):
    patching.patch(module.Module, "train", _train)


HOOKS = {"torch.nn.modules.module": _hook}
