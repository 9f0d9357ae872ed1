"""An evaluation with neither a loader nor `eval()`: a block with gradients off, inside which a model is called.

It counts only where it comes less often than every step, and every batch, of which several steps may be made: a
teacher, a generator's sample for the discriminator and an average of the weights come with each. Blocks of a
millisecond and less are none. Whether a model is called in a block is looked at the first times that its place comes
by: by a forward hook common to all modules that takes itself back at the first call (as in `forward.py`; none once
anything is compiled, and then such a block is not told). A place inside which a backward pass runs is none either: an
optimizer that calls a closure (LBFGS) has gradients off around it. Nor is a place that came before the first step and
before any loader: there a policy acts, and that is what is learnt from.
"""

import sys

from gputune_guest import drawing, dynamo, evaluation, forward, patching, places, ring, spans, wrapping
from gputune_guest.words import EVALUATION, SPAN

now = ring.now
here = ring.here

TRIES = 4  # times that a place is looked at before it is known to call no model

_places = {}  # (code, line) of the user's to a _Place
_block = None  # the outermost one that the training thread is in


class _Place:
    """Where blocks begin: `calls` a model or not, looks that are `left`, where the last came, and steps when told."""

    __slots__ = ("calls", "last", "left", "told")

    def __init__(self):
        self.calls, self.left, self.last, self.told = False, TRIES, evaluation.NOWHERE, -1


class _Block:
    """A block that is open, since `t0`."""

    __slots__ = ("frame", "handle", "look", "passes", "phases", "place", "t0")

    def __init__(self, place, frame, seldom):
        self.place, self.frame, self.handle = place, frame, None
        self.phases, self.passes = evaluation.phases(), here.passes
        if not place.calls:
            place.left -= 1
            self.handle = forward.hook(_called)
        self.look = drawing.begin(EVALUATION) if place.calls and seldom else None
        self.t0 = now()


def _calls(_module, _args):
    if _block is not None and spans.get_ident() == here.trainer:
        _block.place.calls = True
        _let_go(_block)


_called = wrapping.quiet(_calls)


def _let_go(block):
    handle, block.handle = block.handle, None
    if handle is not None:
        handle.remove()


def _entered(frame):
    """Take notice of a block that the training thread has entered, its outermost one."""
    global _block
    frame = places.user_frame(frame)
    key = frame.f_code, frame.f_lineno
    place = _places.get(key)
    if place is None:
        if len(_places) >= 256:  # places that are told apart
            return
        place = _places[key] = _Place()
        place.left = TRIES if evaluation.begun() else 0
    if place.calls or (place.left and forward.may_hook()):
        _block = _Block(place, frame, _is_seldom(place))


def _is_seldom(place):
    return evaluation.is_seldom(place.last) or evaluation.steps() == place.told


def _left():
    """Take notice that it has been left."""
    global _block
    t1 = now()
    block, _block = _block, None
    _let_go(block)
    place, at = block.place, evaluation.reached()
    seldom, place.last = _is_seldom(place), at
    if here.passes != block.passes:  # it trains inside, with gradients on again: an optimizer that calls a closure
        place.calls, place.left = False, 0
        return
    # 1_000_000 ns: a shorter block is none
    if place.calls and seldom and evaluation.phases() == block.phases and t1 - block.t0 >= 1_000_000:
        place.told = at[0]
        drawing.end(block.look)
        ring.record(SPAN, EVALUATION, block.t0, t1, evaluation.site(block.frame))


def _enter(original):
    enabled = sys.modules["torch"].is_grad_enabled

    def before(_args, _kwargs):
        return True if here.phase is None and _block is None and enabled() else None  # the outermost one

    def after(_begun, _result, error):
        if error is None and not spans.silent and spans.get_ident() == here.trainer and not enabled():
            _entered(sys._getframe())

    return wrapping.collected(original, before, after)  # in Python: TorchScript reads the source of what it stands for


def _exit(original):
    enabled = sys.modules["torch"].is_grad_enabled

    def before(_args, _kwargs):
        return None if _block is None else True

    def after(_begun, _result, _error):
        if _block is not None and enabled() and spans.get_ident() == here.trainer:
            _left()

    return wrapping.collected(original, before, after)


def _forked():
    global _block
    _block = None
    _places.clear()


def _leave():
    """Leave no hook in place once something is compiled."""
    if _block is not None:
        _let_go(_block)


def _hook(module):
    for kind in (module.no_grad, module.inference_mode):
        patching.patch(kind, "__enter__", _enter)
        patching.patch(kind, "__exit__", _exit)


ring.at_farewell(_leave)
dynamo.at_first(_leave)
wrapping.after_fork(_forked)
HOOKS = {"torch.autograd.grad_mode": _hook}
