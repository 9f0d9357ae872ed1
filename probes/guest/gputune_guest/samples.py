"""Sampled batches: what is too dear to be measured of each is measured of some, and of the step that follows them.

That is CPU time (a system call a reading), what the guest itself takes, and the time to the first module call. The
first batches of a process are all sampled, later ones ever more seldom, down to each 64th on average. The distance
varies, so that what the training does each 10th or each 64th time is met as often as it happens.
"""

import time

from gputune_guest import forward, looking, ring, weights, wrapping
from gputune_guest.here import LAST_SEQ
from gputune_guest.words import GUEST

now = ring.now
here = ring.here
cpu_of_thread = getattr(time, "thread_time_ns", time.process_time_ns)
cpu_of_process = time.process_time_ns

RARELY = 64  # mean distance of samples in the long run
SHARE = 16  # until then a sample stands for a 16th of what came before it
MOST = LAST_SEQ  # what the field c of a record holds

_seen = 0  # batches (or steps, without a loader) up to the sample that is due
_chance = 1


def again():
    """Say when the next sample is due, at one: sets `here.left`. That is the time to see what the recorder asks for."""
    global _seen, _chance
    looking.due()
    half = min(RARELY, max(1, _seen // SHARE)) // 2
    _chance = (_chance * 1103515245 + 12345) & 0x7FFFFFFF  # whatever keeps no time with the training
    here.left = max(1, half + (_chance >> 16) % (2 * half + 1))
    _seen += here.left


def begin(mine, times, cpu):
    """Begin to sample the step after a `next()` that was sampled.

    `times` are ns: when it was entered, when it was ready to call theirs, when it did, when that returned, when its
    clocks were read, and when all that is done of every batch was done. `cpu` are ns of the thread in theirs.
    """
    came, ready, t0, t1, back, done = times
    forward.begin(0, mine, mine.count)
    own = ready - came + done - back
    here.timing = True
    used = cpu_of_process()
    mine.sample = (came, done, own, t0 - ready + back - t1 + now() - done, cpu, here.spent, used)


def end(mine):
    """Write what was measured of the step that is over now, and of the `next()` before it."""
    used = cpu_of_process()
    t0 = now()
    weights.end()  # no module was called in this step
    (came, done, own, extra, cpu, spent, before), mine.sample = mine.sample, None
    here.timing = False
    own += here.spent - spent
    ring.record(GUEST, 0, came, done, own, cpu, mine.number, used - before, min(MOST, extra + now() - t0))


def _forked():
    global _seen
    _seen = 0


wrapping.after_fork(_forked)
