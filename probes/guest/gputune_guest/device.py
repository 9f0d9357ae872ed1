"""How long the device idled between two steps, on the device's own clock.

Where CUDA is in use (we never initialise it), a timing event is recorded on the current stream when a `next()` returns
and when the following one is called. Once the events have passed they say how long the step's work took and how
long the device had nothing to do after it. Nothing here ever waits for the device.
"""

import collections
import sys

from gputune_guest import ring, spans, sync
from gputune_guest.words import GAP

now = ring.now
ENOUGH = 5_000_000  # ns; of batches that come faster than this only so many are timed
MOST_PENDING = 64  # events that have not passed: a host that runs this far ahead is not timed
TOO_MANY = 3  # errors of the device's clock (several devices, a lost one) after which it is left alone

clock = None


class Clock:
    """Times the boundaries of an iterator's batches with the events of `cuda` (the module, or a test's)."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.capturing = getattr(cuda, "is_current_stream_capturing", bool)
        self.pool = []
        self.pending = collections.deque()
        self.errors = 0

    def before(self, mine):
        """Mark the end of a step: `next()` is about to be called."""
        if mine.started is not None and self.errors < TOO_MANY:
            try:
                mine.ended = self._event() if self._usable() else None
                mine.asked = now()
            except Exception as error:
                self._failed(error)

    def after(self, mine, t1):
        """Mark the start of a step: `next()` has returned at `t1`."""
        if self.errors >= TOO_MANY:
            return
        try:
            if not self._usable():
                mine.started = mine.ended = None
                return
            every = max(1, ENOUGH // max(1, t1 - mine.returned))
            mine.returned = t1
            if mine.ended is not None:
                start = self._event()
                self.pending.append((mine.started, mine.ended, start, mine.asked, t1, mine.count - 1, mine.number))
                mine.ended = None
                mine.started = start if every == 1 else None
            elif mine.count % every == 0 and len(self.pending) < MOST_PENDING:
                mine.started = self._event()
            self._collect()
        except Exception as error:
            self._failed(error)

    def _usable(self):
        if ring.here.phase is not None or spans.get_ident() != ring.here.trainer or not self.cuda.is_initialized():
            return False
        return not self.capturing()

    def _event(self):
        event = self.pool.pop() if self.pool else self.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _collect(self):
        """Report the gaps whose events have passed."""
        while self.pending and self.pending[0][2].query():
            started, ended, following, asked, returned, index, number = self.pending.popleft()
            work = int(started.elapsed_time(ended) * 1e6)
            idle = int(ended.elapsed_time(following) * 1e6)
            ring.record(GAP, 0, asked, returned, idle, work, index, number)
            self.pool += (started, ended)

    def _failed(self, error):
        self.errors += 1
        self.pending.clear()
        self.pool.clear()
        ring.failed(error)


def _hook(module):
    global clock
    if sync.has_device(sys.modules["torch"]):
        clock = Clock(module)


HOOKS = {"torch.cuda": _hook}
