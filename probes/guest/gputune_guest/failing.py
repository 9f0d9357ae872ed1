"""A device that fails, and one that is not used: what the verdict says of them in one sentence.

An error of CUDA's is told where the device's clock meets it, and again as the interpreter ends, if it is what ended the
script: Python has kept it then. Nothing here calls CUDA, which has to stay as the script left it, for a fork as well.
"""

import os
import sys

from gputune_guest import places, ring, sync, wrapping

FAILED = ("CUDA error", "HIP error", "CUDA driver error", "CUBLAS error", "cuDNN error", "cuBLAS error")
LONGEST = 200  # characters that are told of a message

_unused = False


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
    where = ""
    if frame is not None:
        frame = places.user_frame(frame)
        where = places.name(frame.f_code.co_filename, frame.f_lineno)
    what = (str(error).splitlines() or [""])[0]
    ring.note(n="failed", what=what[:LONGEST], where=where, ended=ended)


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
    """Tell of the error that ended the script, if it was the device's."""
    try:
        error = getattr(sys, "last_value", None)
        if error is None or not of_device(error):
            return
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        tell(error, None if trace is None else trace.tb_frame, ended=True)
    except Exception as error:
        ring.failed(error)


def _hook(module):
    if sync.has_device(sys.modules["torch"]):
        wrapping.at_exit(_last)


def _forked():
    global _unused
    _unused = False


wrapping.after_fork(_forked)
HOOKS = {"torch.cuda": _hook}
