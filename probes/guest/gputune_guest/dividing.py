"""Dividing a step at more places than where it is waited, so that no part of it is more than the device's queue holds.

A part is timed by holding the device back until the host has queued all of it (holding.py). With more launches than the
queue holds the host never gets there: it stands in a launch until the hold is over. Such a step is divided now and
then: a TorchFunctionMode, torch's way to stand between a script and its functions, counts its calls, and every so many
of them another part begins, and one before the backward pass and behind it. That is made in C, of nodes that the calls
left behind: where a part begins, the node of the first result that has one gets a hook that returns nothing, for this
one pass, and in it another part of the pass begins. No gradient is touched. What torch is called with is not looked at,
and nothing is changed.

The mode is put in only where no other one is and nothing was ever compiled, on the training thread, from a step's begin
to the optimizer's step, or to the step's end.
"""

import _thread
import sys

from gputune_guest import dynamo, modes, ring, spans, wrapping

here = ring.here
ATTRIBUTE = type((0).__add__)  # type of what reads an attribute of a tensor, which launches nothing
CALLS = 128  # of torch in a part: each launches some kernels, and twice as many on the way back; queues hold 1,024
MOST_CALLS = 1024  # a step that would have more parts than can be told apart has longer ones, up to here

calls = CALLS
_left = 0  # calls until the next part begins
_mode = None  # in place, or None
_thread_of = 0  # the one on which it is
_made = None  # the mode, once made
_backward = None  # the method that is parts of its own
_marks = False  # a part has begun, and none of its calls yet has left a node behind
_passing = False  # a step that is divided is in it: its nodes may be run by a thread of the engine's
_off = False  # something is compiled, or it failed


def can():
    """Return whether a step that begins now can be divided."""
    return not _off and _mode is None and not dynamo.asked() and modes.free() is not None


def begin():
    """Have the step that begins now divided; return whether it is."""
    global _mode, _thread_of, _left, _backward, _marks, _passing
    if not can():
        return False
    _marks = _passing = False
    _backward = sys.modules["torch"].Tensor.backward
    _mode, _thread_of, _left = _made or _make(), _thread.get_ident(), calls
    modes.free()._push_on_torch_function_stack(_mode)
    here.look = True  # the optimizer's step is to be told: step.py
    return True


def end():
    """Divide no further."""
    global _mode
    if _mode is not None and _thread.get_ident() == _thread_of and modes.took_out(_mode):
        _mode = None


def crowded():
    """Learn that a step had more parts than can be told apart: the next ones have longer ones, or none."""
    global calls, _off
    calls *= 2
    _off = _off or calls > MOST_CALLS


def _make():
    global _made

    class GputuneDivides(sys.modules["torch.overrides"].TorchFunctionMode):
        pass

    def before(given, _kwargs):
        global _left, _passing, _marks
        if type(given[1]) is ATTRIBUTE:
            return None
        passes = given[1] is _backward
        if passes or _left <= 0:
            _divide()
            _passing = _passing or passes
            _marks = not passes
        _left -= 1
        return passes if passes or _marks else None

    def after(passes, result, _error):
        global _passing
        if not passes:
            _divide_pass_at(result)
            return
        _passing = False
        here.look = True  # the pass may have been all that was looked for
        _divide()

    GputuneDivides.__torch_function__ = wrapping.around(modes.through, before, after, binds=True)
    _made = GputuneDivides()
    return _made


def _divide():
    global _left
    _left = calls
    if _mode is not None and spans.meeting is not None:
        spans.meeting.divide()


def _divide_pass_at(result):
    """Have another part of the backward pass begin where it comes to what made this, if it comes there."""
    global _marks
    node = getattr(result[0] if type(result) is tuple and result else result, "grad_fn", None)
    if node is not None:
        _marks = False
        node.register_prehook(wrapping.quiet(_pass_comes))


def _pass_comes(*_gradients):
    if _passing and spans.meeting is not None:
        spans.meeting.divide(passing=True)


def _leave():
    global _off
    _off = True
    end()


ring.at_farewell(end)
dynamo.at_first(_leave)
wrapping.after_fork(_leave, anew=False)  # a device that the parent has used is none for its child
