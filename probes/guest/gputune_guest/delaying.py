"""Holding each worker of a loader up for a moment, to see what that does to the pace of the batches.

Where making batches sets the pace of a loop, and workers make them side by side, each batch comes later by as much as
its maker was held up. Where the workers wait for each other at something that only one of them can use at a time (a
lock, a server, a disk), or for CPUs, the others go on meanwhile, and it changes nothing. So it tells whether more of
them would bring anything. No sample, no order and no random number is touched.

All workers do it in the same moments, which none has to tell the others: the monotonic clock is divided into slots, a
power of two of ns, so many that the delay is `budget.share()` of them. A worker that is idle now and then is not held
up: it does not set the pace.
"""

import os
import time

from gputune_guest import budget, ring
from gputune_guest.words import DELAY

now = ring.now
PART = 0.5  # of a batch's making by which it is: the others are through with theirs by then, if they can be
LEAST, MOST = 250_000, 500_000_000  # ns: a shorter delay is lost in what a sleep is late by; a longer one is noticed
FIRST_NS, FIRST = 1_000_000_000, 8  # ns and batches of a worker before its first one: imports, opened files
IDLE = 0.1  # of a batch's making that may lie between two of them: more is a worker that waits for somebody to ask
BITS = 20  # of a ms: no slot is as short


class Delaying:
    """When a worker is held up for a `share` of its time, and how long. `clock` and `sleep`: time's, or a test's."""

    def __init__(self, share, clock=now, sleep=time.sleep):
        self.share, self.clock, self.sleep = share, clock, sleep
        self.began = 0
        self.made = 0
        self.usual = 0.0  # ns that it takes to make a batch
        self.ended = 0  # when the latest was made
        self.slot = 0  # begin of the slot that was looked at last
        self.due = 0  # ns: nothing is to be decided before

    def before(self):
        """Hold the worker up if it is time, before it makes a batch."""
        t = self.clock()
        if t < self.due:
            return
        if not self.began:
            self.began = t
        if self.made < FIRST or t < self.began + FIRST_NS:
            self.due = 0
            return
        length = PART * self.usual
        if not LEAST <= length <= MOST:
            return
        begins, self.due = slot(t, length / self.share)
        if t < begins or begins == self.slot:
            return
        self.slot = begins
        if t - self.ended <= IDLE * self.usual:
            self.sleep(length / 1e9)
            ring.record(DELAY, 0, t, self.clock(), begins)

    def after(self, t0, t1):
        """Learn how long a batch took to make (ns)."""
        took = t1 - t0
        self.usual += (min(took, 4 * self.usual or took) - self.usual) / min(8, self.made + 1)
        self.made += 1
        self.ended = t1


def slot(t, length):
    """Return the moment of the slot of at least `length` ns in which `t` lies, and until when none follows.

    It lies anywhere in the slot, for a rhythm may be the training's own: in the half of it that its number says, at the
    moment of that half. So workers whose slots differ in length have those of the longer ones in common.
    """
    bits = int(length).bit_length()
    part = number = t >> bits
    for _ in range(bits - BITS):
        part = part * 2 + (part * 2654435761 >> 15 & 1)
    begins = part << min(bits, BITS)
    return begins, (begins if t < begins else (number + 1) << bits)


def wanted(workers):
    """Return what decides when a worker is held up; None where none is: of one alone, and beside `--tune`."""
    share = 0.0 if workers < 2 or os.environ.get("GPUTUNE_STEER") else budget.share()
    return Delaying(share) if share else None
