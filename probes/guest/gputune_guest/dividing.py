"""Dividing a step at more places than where it is waited, so that no part of it is more than the device's queue holds.

A part is timed by holding the device back until the host has queued all of it (holding.py). With more launches than the
queue holds the host never gets there: it stands in a launch until the hold is over. Such a step is divided now and
then: a TorchFunctionMode, torch's way to stand between a script and its functions, counts its calls, and every so many
of them another part begins, and one before the backward pass and behind it, which is made in C. What torch is called
with is not looked at, and nothing is changed.

The mode is put in only where no other one is and nothing was ever compiled, on the training thread, from a step's begin
to the optimizer's step, or to the step's end.
"""

import _thread
import sys

from gputune_guest import dynamo, modes, ring, spans, wrapping

here = ring.here
CALLS = 256  # of torch in a part: each launches a kernel or two, and queues hold a thousand
MOST_CALLS = 1024  # a step that would have more parts than can be told apart has longer ones, up to here

calls = CALLS
_left = 0  # calls until the next part begins
_mode = None  # in place, or None
_thread_of = 0  # the one on which it is
_made = None  # the mode, once made
_backward = None  # the method that is a part of its own
_off = False  # something is compiled, or it failed


def can():
    """Return whether a step that begins now can be divided."""
    return not _off and _mode is None and not dynamo.asked() and modes.free() is not None


def begin():
    """Have the step that begins now divided; return whether it is."""
    global _mode, _thread_of, _left, _backward
    if not can():
        return False
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
        global _left
        passes = given[1] is _backward
        if passes or _left <= 0:
            _divide()
        _left -= 1
        return True if passes else None

    def after(_passes, _result, _error):
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


def _leave():
    global _off
    _off = True
    end()


ring.at_farewell(end)
dynamo.at_first(_leave)
wrapping.after_fork(_leave, anew=False)  # a device that the parent has used is none for its child
