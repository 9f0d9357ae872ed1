"""The device's own clock: when it was through with each step, how far it is behind the host, and what it did.

Where CUDA is in use (we never initialise it), timing events are recorded on the current stream when a `next()` returns
and when the following one is called, and around what makes the thread wait in between (joins.py). A loop without a
DataLoader is timed from one optimizer step to the next. Once the events have passed they say how long the step's work
took and how long the device had nothing to do after it. Nothing here waits for the device, but at the end of a trial.

Events of two devices cannot be compared. Of a process with several the current one is timed; a step that begins on one
and ends on another is not, and a training that moves on is timed from its next step on.
"""

import collections
import sys
import time

from gputune_guest import allocator, dividing, failing, holding, joins, ring, spans, sync
from gputune_guest.words import DEVICE, DIVIDED, GAP, HELD, SEGMENT

now = ring.now
ENOUGH = 5_000_000  # ns; of batches that come faster than this only so many are timed
MOST_PENDING = 256  # steps that have not passed: a host that runs further ahead is not timed
TOO_MANY = 3  # errors of the device's clock after which it is left alone
DRIFT = 2e-5  # of the time that passes, by which the two clocks may come apart
NOTE = "device"  # what is said of a process whose device tells the time
POLL = 0.001  # s between looks whether the device is through, where a trial ends
FAR = 0xFFFFFFFF  # us, that a record has room for

clock = None


class Mark:
    """An event on a stream: `t` is when the host recorded it, ns, `at` when it passed by the device's clock."""

    __slots__ = ("at", "event", "t")

    def __init__(self, event):
        self.event, self.t, self.at = event, 0, 0


class Clock:
    """Times the boundaries of an iterator's batches with the events of `cuda` (the module, or a test's)."""

    def __init__(self, cuda):
        self.cuda = cuda
        self.capturing = getattr(cuda, "is_current_stream_capturing", bool)
        native = getattr(sys.modules["torch"], "_C", None)
        self.device = getattr(native, "_cuda_getDevice", int)  # the number of the current one; without it always 0
        self.home = None  # the device that it is the clock of
        self.pool = []
        self.pending = collections.deque()
        self.base = None  # the latest mark that has passed: what comes later is placed from it
        self.low = None  # ns from the device's clock to the host's: no event passes before it is recorded
        self.low_at = 0
        self.current = None  # the timed step that is under way
        self.hold = holding.Hold(cuda)
        self.copying = {}  # B of a copy to the ns that it takes, as last seen by itself
        self.errors = self.returned = 0
        self.told = False

    def before(self, mine):
        """Mark the end of a step: `next()` is about to be called."""
        step = mine.step
        if step is not None and self.errors < TOO_MANY:
            try:
                if self.usable() and step.end is None and self.device() == self.home:
                    step.end = self.mark()
                    self.hold.ends(step)
                else:
                    mine.step = None
                self._leave(step)
            except Exception as error:
                self.failed(error)

    def after(self, mine, t1):
        """Mark the start of a step: `next()` has returned at `t1`."""
        if t1 >= allocator.due:
            allocator.look(self)
        if self.errors >= TOO_MANY:
            return
        try:
            step, mine.step = mine.step, None
            if not self.usable():
                return
            if self._moved():
                step = None
            every = max(1, ENOUGH // max(1, t1 - mine.returned))
            mine.returned = t1
            start = None
            if step is not None and step.end is not None:
                start = step.following = self.mark()
                step.told(t1, mine.count - 1, mine.number)
                self.pending.append(step)
            if every > 1:
                start = self.mark() if start is None and mine.count % every == 0 else None
            elif start is None:
                start = self.mark()
            if start is not None and len(self.pending) < MOST_PENDING:
                mine.step = self._begin(start)
            self._collect()
        except Exception as error:
            self.failed(error)

    def stepped(self, mine, t1):
        """Mark the end of a step, and the start of the next one, where there is no `next()`: `mine` is an optimizer."""
        if t1 >= allocator.due:
            allocator.look(self)
        if self.errors >= TOO_MANY:
            return
        try:
            step, self.current = self.current, None
            dividing.end()
            if not self.usable():
                return
            if self._moved():
                step = None
            if step is None and t1 - self.returned < ENOUGH:
                return
            mark = self.mark()
            if step is not None:
                step.end = step.following = mark
                self.hold.ends(step)
                step.told(t1, mine.count, 0)
                self.pending.append(step)
            self.returned = t1
            if len(self.pending) < MOST_PENDING:
                self._begin(mark)
            self._collect()
        except Exception as error:
            self.failed(error)

    def passed(self):
        """Mark the end of a backward pass, in a step that is held or divided."""
        step = self.current
        if step is None or step.inside is not None or not (step.divided or step.target >= 0):
            return
        try:
            if self.usable() and self.device() == self.home:
                if step.backed is not None:
                    self.pool.append(step.backed)
                step.backed = self.mark()
        except Exception as error:
            self.failed(error)

    def _leave(self, step):
        """Learn that a step is over: the one under way, or there are several beside each other."""
        dividing.end()
        if self.current is not None and self.current is not step:
            self.current.lost = step.lost = True
        self.current = None

    def _begin(self, start):
        """Begin to time a step; say once that steps are timed, long before the first of them may be over."""
        if not self.told:
            self.told = True
            ring.note(n=NOTE)
        self._leave(self.current)
        step = self.current = joins.Step(start)
        self.hold.begins(self, step)
        return step

    def usable(self):
        """Return whether this is the training thread, in its loop, with a device that is in use."""
        if ring.here.phase is not None or spans.get_ident() != ring.here.trainer:
            return False
        if not self.cuda.is_initialized():
            failing.unused(self.cuda)
            return False
        return not self.capturing()

    def _moved(self):
        """Return whether the thread has come to another device since; that one is timed then, from here on."""
        device = self.device()
        if device == self.home:
            return False
        self._forget()
        self.home = device
        return True

    def _forget(self):
        """Let go of all that was marked: it has failed, or is another device's."""
        dividing.end()
        self.current = self.base = None
        self.hold.spending.owed = 0
        self.pending.clear()
        self.pool.clear()

    def mark(self):
        """Return a mark that is on the current stream from now on."""
        mark = self.pool.pop() if self.pool else Mark(self.cuda.Event(enable_timing=True))
        mark.t = now()
        mark.event.record()
        return mark

    def _collect(self):
        """Report the steps whose events have passed."""
        while self.pending and self.pending[0].following.event.query():
            step = self.pending.popleft()
            seen = now()
            marks = step.marks()
            for mark in marks:
                self._place(mark)
            following = step.following
            if self.low + following.at > seen:  # the clocks have come apart
                self.low = seen - following.at
            self._tell(step)
            self.hold.learn(step, self.low)
            self._let_go(marks, following)

    def _place(self, mark):
        """Say when a mark passed, by the device's clock, and learn how that compares with the host's."""
        base = self.base
        if base is None:
            self.base, mark.at = mark, 0
        elif mark is not base:
            mark.at = base.at + int(base.event.elapsed_time(mark.event) * 1e6)
        low = mark.t - mark.at
        if self.low is not None:
            low = max(low, self.low - int(DRIFT * max(0, mark.t - self.low_at)))
        self.low, self.low_at = low, mark.t

    def _let_go(self, marks, following):
        """Keep the marks for other uses, but for the one that the next is placed from."""
        base, self.base = self.base, following
        self.pool += [mark for mark in marks if mark is not following and mark is not base]
        if base is not following:
            self.pool.append(base)

    def _tell(self, step):
        low, end = self.low, step.end
        lag = min(FAR, 1 + max(0, end.at + low - end.t) // 1000)
        idle, work = step.following.at - end.at, end.at - step.start.at
        code = DIVIDED if step.divided else 0
        if not code:  # of the others it is told how long they took
            ring.record(GAP, 0, end.t, step.returned, idle, work, step.index, step.number, lag)
        copied, read, stood = step.waits(low, self.copying)
        ring.record(DEVICE, code, step.start.t, end.t, copied, read, stood, step.behind(low), step.mask())
        for segment, t0, t1, took, behind, held in step.segments(low):
            after = 0 if behind is None else 1 + behind
            ring.record(SEGMENT, code | (HELD if held else 0), t0, t1, took, segment, after, held, step.mask())

    def failed(self, error):
        """Leave the clock alone for a while, or for good."""
        self._forget()
        if failing.of_device(error):
            self.errors = TOO_MANY
            failing.tell(error, sys._getframe(1))
            return
        self.errors += 1
        ring.failed(error)


def finish(limit):
    """Tell of all steps that were queued, in a training that ends here: wait for the device, at most `limit` ns."""
    until = now() + limit
    while clock is not None and clock.pending and now() < until:
        clock._collect()
        time.sleep(POLL)


def stepped(mine, t1):
    """Tell the clock of an optimizer's step in a loop without a DataLoader."""
    if clock is not None:
        clock.stepped(mine, t1)


def passed():
    """Tell the clock that a backward pass is over."""
    if clock is not None:
        clock.passed()


def asks():
    """Return whether the backward passes of the step under way are to be told."""
    return clock is not None and clock.current is not None and clock.current.target >= 0


def _hook(module):
    global clock
    if sync.has_device(sys.modules["torch"]):
        clock = Clock(module)
        spans.meeting = joins.Meeting(clock)


HOOKS = {"torch.cuda": _hook}
