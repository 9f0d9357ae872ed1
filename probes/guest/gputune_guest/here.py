"""What the hooks that run once a batch share, in C where that is at hand and in Python where it is not.

`_fast.c` has the same two types, and says what is asked of them; both write the same records.
"""

import _thread
import itertools
import mmap
import os
import struct
import sys

INTERFACE = 7  # of _fast.c: an older build beside newer Python is not used
LAST_SEQ = 0xFFFFFFFF
SOON = 200_000_000  # ns that a record may wait

_pack = struct.Struct("<I2H6q2I").pack_into  # repeat counts: fewer codes to walk through in a cold cache
_pack_mark = struct.Struct("<2Iq").pack_into


class Here:
    """Side by side in memory: what the hooks touch there is what they cost."""

    __slots__ = (
        *("base", "buffer", "burst", "count", "last", "late", "left", "look", "mask", "passes", "phase", "spent"),
        *("timing", "trainer", "waiting", "writer"),
    )

    def __init__(self):
        self.buffer = None  # the mapping, once there is one
        self.count = iter(())  # yields the next seq; exhausted while there is no ring, which is how that is noticed
        self.base = self.mask = 0
        self.late = []  # (kind, t0, t1, a) of records that may wait a moment
        self.burst = None  # calls that more of their kind may follow: see spans.prolong
        self.look = True  # a step or a backward pass may mean something now: evaluation.on_step wants to know
        self.waiting = False  # the training thread is in next()
        self.trainer = _thread.get_ident()  # which thread that is: see spans.train_here
        self.passes = 0  # backward passes so far
        self.phase = None  # the evaluation phase that is open
        self.last = None  # the iterator of the last batch outside of all phases
        self.left = 1  # batches up to the next one that is sampled: see samples.py
        self.timing = False  # the step of a sampled batch is under way: hooks add what they take, in ns, to
        self.spent = 0
        self.writer = None  # ring.record

    def map(self, fd, size):
        """Return the file of a descriptor, mapped."""
        return mmap.mmap(fd, size, mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0))

    def begin(self, made, base, capacity):
        """Write into what `map` returned from now on."""
        self.base, self.mask = base, capacity - 1
        self.buffer = made
        self.count = itertools.count(1)

    def close(self):
        """Write no more."""
        self.buffer, self.count = None, iter(())

    def go_on(self, at):
        """Give the next record this number."""
        self.count = itertools.count(at)

    def forget(self):
        """Forget what was known of the last iterator and the last optimizer: one of them is gone."""

    def put(self, *fields):
        """Write a record: kind, code, t0, t1, a, b, d, e, c. StopIteration: there is no ring."""
        seq = next(self.count)
        if seq > LAST_SEQ:
            self.go_on(1)
            seq = 0
        _pack(self.buffer, self.base + ((seq & self.mask) << 6), seq, *fields, seq)

    def mark(self, kind, code, t0):
        """Say what is about to be done."""
        _pack_mark(self.buffer, 64, kind, code, t0)

    def later(self, kind, t0, t1, a):
        """Write a record soon: with the next batch's, whose caches it shares, or with the next one after `SOON`."""
        late = self.late
        late.append((kind, t0, t1, a))
        if len(late) == 8 or t1 - late[0][2] > SOON:  # records that may wait
            self.flush()

    def flush(self):
        """Write the records that waited."""
        late, self.late = self.late, []
        for kind, t0, t1, a in late:
            self.writer(kind, 0, t0, t1, a)


class Known:
    """What is known of an iterator or an optimizer of theirs: the part that is looked at once a batch."""

    __slots__ = (
        *("number", "count"),
        *("batch_size", "surely", "several", "sized"),  # see loader.py
        "sample",  # what is measured of its step that is under way: see samples.py
    )


def _native():
    """Return the C part, or None: not built, built for another machine, not wanted, or an interpreter unlike CPython.

    Builds without the GIL, which orders the records, and those that count references their own way have `abiflags`.
    """
    if os.environ.get("GPUTUNE_GUEST_PURE") or sys.implementation.name != "cpython" or sys.abiflags:
        return None
    try:
        from gputune_guest import _fast
    except Exception:
        return None
    return _fast if _fast.INTERFACE == INTERFACE else None


fast = _native()
if fast is not None:
    Here, Known = fast.Here, fast.Known
