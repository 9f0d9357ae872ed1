"""What ended a script, a device that fails, and one that is not used: what the verdict says of them in one sentence.

An error of CUDA's is told where the device's clock meets it. That an error ended the script is told as the interpreter
ends, any error: Python has kept it then, and no hook of theirs need be replaced to hear of it; of `sys.exit` alone
it keeps nothing. Nothing here calls CUDA, which has to stay as the script left it, for a fork as well.
"""

import os
import sys

from gputune_guest import raising, ring, wrapping
from gputune_guest.raising import LONGEST

FAILED = ("CUDA error", "HIP error", "CUDA driver error", "CUBLAS error", "cuDNN error", "cuBLAS error")

_unused = False
_listens = False


def of_device(error):
    """Return whether it is the device that failed, or its driver, and not who used it. Memory has its own words."""
    if not isinstance(error, RuntimeError):
        return False
    text = str(error)
    if "out of memory" in text or type(error).__name__ == "OutOfMemoryError":
        return False
    return type(error).__name__ == "AcceleratorError" or text.startswith(FAILED)


def tell(error, frame, ended=False):
    """Tell of an error and where it came up: launches are not waited for, so the reason may lie before that."""
    what = (str(error).splitlines() or [""])[0]
    ring.note(n="failed", what=what[:LONGEST], where=raising.where(frame), ended=ended)


def unused(cuda):
    """Say once that a step was made, by a torch that is built for a device, and none is in use."""
    global _unused
    if not _unused:
        _unused = True
        version = sys.modules["torch"].version
        forked = getattr(cuda, "_is_in_bad_fork", bool)()
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        ring.note(n="unused", cuda=getattr(version, "cuda", None) or "", visible=visible, forked=bool(forked))


def _last():
    """Tell of the error that ended the script, if any did. A Ctrl-C is none."""
    error = getattr(sys, "last_value", None)
    if error is None or not isinstance(error, Exception):
        if error is None and raising.left:
            ring.note(n="raised", what=raising.left[0], where=raising.left[1])
        return
    frame = raising.innermost(error)
    if of_device(error):
        tell(error, frame, ended=True)
    else:
        ring.note(n="raised", what=raising.line(error), where=raising.where(frame))


def _leaves(args, _kwargs):
    raising.leaves(args, sys._getframe(1))


def _listen(_module):
    """Listen for the error that ends the script, once, whichever framework was first."""
    global _listens
    if not _listens:
        _listens = True
        wrapping.at_exit(_last)
        sys.exit = wrapping.around(sys.exit, _leaves)


def _forked():
    global _unused
    _unused = False
    raising.forget()


wrapping.after_fork(_forked)
HOOKS = {"torch": _listen, "tensorflow": _listen}
