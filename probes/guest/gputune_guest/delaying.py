"""Holding each worker of a loader up for a moment, to see what that does to the pace of the batches.

Where making batches sets the pace of a loop, and workers make them side by side, each batch comes later by as much as
its maker was held up. Where the workers wait for each other at something that only one of them can use at a time (a
lock, a server, a disk), or for CPUs, the others go on meanwhile, and it changes nothing. So it tells whether more of
them would bring anything. No sample, no order and no random number is touched.

All workers of a loader do it at the same moments, a quarter of them after the other: whoever finds that it is time says
so in memory that they share since they were forked, and the others follow at their next batch. Workers that were not
forked share none, and are not held up; nor are those of a job of several ranks, which wait for each other, those of a
loader with a `timeout`, and any while the workers are idle for much of their time: they do not set the pace.
"""

import mmap
import os
import struct
import time

from gputune_guest import budget, ranks, ring
from gputune_guest.words import DELAY

now = ring.now
PART = 0.5  # of a batch's making by which it is: the others are through with theirs by then, if they can be
LEAST, MOST = 250_000, 500_000_000  # ns: a shorter delay is lost in what a sleep is late by; a longer one is noticed
FIRST_NS, FIRST = 1_000_000_000, 8  # ns and batches of a worker before its first one: imports, opened files
IDLE = 0.5  # of a batch's making that may lie between two of them on average: more is a worker that waits to be asked
GROUPS = 4  # of workers, each held up a batch after the other: what they stand in line for is to be used all the time
EAGER, SOONER = 4, 4  # the first so many times come so much sooner: a short run is to have some
KEEN, SELDOM = 64, 8  # after so many times they come so much more seldom: there is hardly more to learn
REST = 24  # batches of a worker between two moments at the least: what one does is to be over before the next
FOLLOWS = 4  # batches of a worker in which it follows the others

_layout = struct.Struct("@qqq")  # moments so far, the latest (ns), and the longest delay that was due at it (ns)
_quiet = struct.Struct("@q")  # behind it: until when there is to be none, as the training thread has it (ns)
_shared = {}  # place of a loader to such memory
_here = None  # that of the loader whose workers are being forked
_owner = 0  # pid of who forks them


class Delaying:
    """When the worker of a `number` is held up for a `share` of its time, and for how long.

    `shared` is what all workers see; `clock` and `sleep` are time's, or a test's.
    """

    def __init__(self, number, share, shared, clock=now, sleep=time.sleep):
        self.number, self.share, self.shared, self.clock, self.sleep = number, share, shared, clock, sleep
        self.heard = budget.heard
        self.began = clock()
        self.made = 0
        self.usual = 0.0  # ns that it takes to make a batch
        self.ended = 0  # when the latest was made
        self.idle = 0.0  # ns between two of them
        self.moment = _layout.unpack_from(shared)[1]  # the latest that is known here
        self.left = -1  # batches until it is held up for that one, -1 once it was

    def before(self):
        """Hold the worker up if it is time, before it makes a batch."""
        t = self.clock()
        if self.left < 0 and self.made >= FIRST:
            self._look(t)
        if self.left < 0:
            return
        self.left -= 1
        if self.left < 0:
            self.sleep(self._length / 1e9)
            ring.record(DELAY, 0, t, self.clock(), self.moment)

    @property
    def _length(self):
        return min(MOST, int(PART * self.usual))

    def never(self):
        """Return whether no batch is to be held up before long: they are made too soon for that."""
        return self.left < 0 and self._length < LEAST

    def skipped(self, many, ended):
        """Take that so many batches were made, the last of them until `ended` (ns): as long as those around took."""
        self.made += many
        self.ended = ended

    def _look(self, t):
        """Learn of a moment that another worker has found, or find one."""
        count, latest, longest = _layout.unpack_from(self.shared)
        if latest != self.moment:
            known, self.moment = self.moment, latest
            follows = FOLLOWS * self.usual
            if t - latest < follows < latest - known:  # else it is late, or two have found the same one
                self.left = self.number % GROUPS
                _layout.pack_into(self.shared, 0, count, latest, max(longest, self._length))
        elif self._is_due(t, count, latest, longest):
            _layout.pack_into(self.shared, 0, count + 1, t, self._length)
            self.moment, self.left = t, self.number % GROUPS

    def _is_due(self, t, count, latest, longest):
        length = max(longest, self._length)  # whoever is slowest is held up for no more than its share either
        if length < LEAST or length >= MOST or self.idle > IDLE * self.usual:
            return False
        if t < max(self.began + FIRST_NS, *_quiet.unpack_from(self.shared, _layout.size)):
            return False
        often = 1 / SOONER if count < EAGER else 1 if count < KEEN else SELDOM
        often = often if count else 0  # the first one tells something already, of a loop that may be short
        pause = max(budget.odds(count) * often * length / self.share, REST * self.usual)
        return t - max(self.began, latest) >= pause and self.heard()

    def after(self, t0, t1):
        """Learn how long a batch took to make (ns)."""
        took = t1 - t0
        many = min(8, self.made + 1)  # batches over which that is the average
        self.usual += (min(took, 4 * self.usual or took) - self.usual) / many
        if self.ended:
            self.idle += (t0 - self.ended - self.idle) / many
        self.made += 1
        self.ended = t1


def of_worker(number, workers):
    """Return what decides when a worker is held up, in that worker; None where none is."""
    alone = workers < 2 or _here is None or os.getpid() == _owner or (ranks.told()[1] or 1) > 1
    share = 0.0 if alone or os.environ.get("GPUTUNE_STEER") else budget.share()
    return Delaying(number, share, _here) if share else None


def latest():
    """Return when workers of any loader of this process were held up last (ns), 0 if never."""
    return max((_layout.unpack_from(shared)[1] for shared in _shared.values()), default=0)


def quiet(until):
    """Have no workers of this process held up until then (ns): something else is being tried."""
    for shared in _shared.values():
        _quiet.pack_into(shared, _layout.size, until)


def before_workers(place, patience):
    """Make what the workers of a loader will share, before they are forked: it is built at `place`."""
    global _here, _owner
    _here, _owner = None, os.getpid()
    # 256 that share memory, by the line that builds them
    if not patience and ranks.alone() and (place in _shared or len(_shared) < 256):
        if place not in _shared:
            _shared[place] = mmap.mmap(-1, _layout.size + _quiet.size)
        _here = _shared[place]
