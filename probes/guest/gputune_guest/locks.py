"""How long making a batch holds a lock that belongs to several processes, and how long it waits for one.

While one worker holds it the others stand still, however many they are. Known are the locks of `multiprocessing`, where
they are entered (`with lock:`), in the thread that makes a sampled batch. One that was made by the worker itself is
nobody else's. Locks of threads and of files are not seen, nor is one whose `acquire` is called: that is C's own.
"""

import _thread
import sys

from gputune_guest import ring, wrapping
from gputune_guest.words import LOCKED

now = ring.now
get_ident = _thread.get_ident


class Locks:
    """What one sampled batch has to do with them. `depth`: of those it is in, one inside of the other."""

    __slots__ = ("awaited", "count", "depth", "held", "ident", "since")

    def __init__(self):
        self.ident = get_ident()
        self.awaited = self.count = self.depth = self.held = self.since = 0


def stand_ins(locks):
    """Yield (owner, name, original, ours) for the two methods by which a lock is entered and left."""
    module = sys.modules.get("multiprocessing.synchronize")
    owner = getattr(module, "SemLock", None)
    enter, leave = (getattr(owner, name, None) for name in ("__enter__", "__exit__"))
    if enter is not None and leave is not None:
        yield owner, "__enter__", enter, _entered(enter, locks)
        yield owner, "__exit__", leave, _left(leave, locks)


def _entered(original, locks):
    def before(_args, _kwargs):
        if get_ident() != locks.ident or locks.depth:
            locks.depth += get_ident() == locks.ident
            return None
        return now()

    def after(t0, _result, error):
        if error is None:
            locks.depth, locks.since = 1, now()
            locks.awaited += locks.since - t0
            locks.count += 1

    return wrapping.around(original, before, after)


def _left(original, locks):
    def before(_args, _kwargs):
        if get_ident() == locks.ident and locks.depth:
            locks.depth -= 1
            if not locks.depth:
                locks.held += now() - locks.since

    return wrapping.around(original, before)


def tell(locks, code, t0, t1):
    """Record what there was of them in a batch that was made from `t0` to `t1`."""
    if locks.held + locks.awaited >= 100_000:  # ns of a batch; below it no lock is worth a word
        ring.record(LOCKED, code, t0, t1, locks.held, locks.awaited, 0, 0, locks.count)
