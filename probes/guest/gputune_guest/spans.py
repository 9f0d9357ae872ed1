"""Pauses of the training: one record around a call that is no training."""

import _thread
import sys


class _Local(_thread._local):
    depth = 0  # how many calls this thread is in that count as one thing, whatever they call
    schedstat = None  # descriptor of this thread's schedstat (fetch.py)
    short = False  # its last fetch was a short one


local = _Local()


def compiling():
    """Return torch's function that dynamo takes for a constant True while it traces; old ones say False."""
    compiler = getattr(sys.modules["torch"], "compiler", None)
    return getattr(compiler, "is_dynamo_compiling", None) or bool
