"""The device's own clock: when it was through with each step, how far it is behind the host, and what it did.

Where CUDA is in use (we never initialise it), timing events are recorded on the current stream when a `next()` returns
and when the following one is called, and around what makes the thread wait in between (joins.py). A loop without a
DataLoader is timed from one optimizer step to the next. Once the events have passed they say how long the step's work
took and how long the device had nothing to do after it. Nothing here waits for the device, but at the end of a trial.

Timing a step costs the host some 0.2 ms, where nothing else is in its caches. What it costs is measured, and no more
steps are timed than a small share of the time pays for, but for the first ones, which a short run is judged by.

Events of two devices cannot be compared. Of a process with several the current one is timed; a step that begins on one
and ends on another is not, and a training that moves on is timed from its next step on.
"""

import collections
import os
import sys
import time

from gputune_guest import allocator, budget, dividing, failing, holding, joins, ring, spans, sync, wrapping
from gputune_guest.words import CROSSED, DEVICE, DIVIDED, GAP, HELD, SEGMENT

now = ring.now
SHARE = 0.003  # of the host's time that timing steps may take, after the
FREE = 64  # first ones, of which all are timed
LATELY = 8  # timed steps over which it is known what one costs
MOST_PENDING = 256  # steps that have not passed: a host that runs further ahead is not timed
TOO_MANY = 3  # errors of the device's clock after which it is left alone
NOTE = "device"  # what is said of a process whose device tells the time

_hold = wrapping.holder()

clock = None


class Mark:
    """An event on a stream: the host recorded it from `t` to `done`, ns, and it passed `at`, by the device's clock.

    In a child that was forked nothing can be done with CUDA. To let go of an event torch asks for the current device,
    and ends the process where that fails. So a child keeps for good what its parent had recorded.
    """

    __slots__ = ("at", "done", "event", "pid", "shared", "t")

    def __init__(self, event):
        self.event, self.t, self.done, self.at = event, 0, 0, 0
        self.shared = False  # two hold it: it is not used again
        self.pid = os.getpid()

    def __del__(self, getpid=os.getpid, hold=_hold):
        if getpid() != self.pid:
            hold(self.event)


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
        self.low = None  # ns from the device's clock to the host's, at the least: no event passes before it is recorded
        self.low_at = 0
        self.asked = 0  # ns: when the device was last seen not to have come to the mark that is waited for
        self.current = None  # the timed step that is under way
        self.hold = holding.Hold(cuda)
        self.copying = {}  # B of a copy to the ns that it takes, as last seen by itself
        self.errors = 0
        self.level = 0  # steps told last at whose end the device was through with all that had been queued
        self.told = False
        self.begun = 0  # steps that were timed so far
        self.due = 0  # ns: when the next one is
        self.spent = self.cost = 0  # ns that the one under way has cost the host by now, and that one costs
        self.streams = getattr(native, "_cuda_getCurrentStream", None)  # says which is the current one of a device
        self.stream = self.stream_told = None  # that one, which takes torch ten times as long to make anew

    def before(self, mine):
        """Mark the end of a step: `next()` is about to be called."""
        step = mine.step
        if step is not None and self.errors < TOO_MANY:
            came = now()
            try:
                if self.usable() and step.end is None and self.device() == self.home:
                    step.end = self.mark()
                    self.hold.ends(step)
                else:
                    mine.step = None
                self._leave(step)
            except Exception as error:
                self.failed(error)
            self.spent += now() - came

    def after(self, mine, t1):
        """Mark the start of a step: `next()` has returned at `t1`."""
        if t1 >= allocator.due:
            allocator.look(self)
        if self.errors >= TOO_MANY:
            return
        if mine.step is None and not self.pending and t1 < self.due:
            return
        came = now()
        try:
            step, mine.step = mine.step, None
            if not self.usable():
                return
            if self._moved():
                step = None
            start = None
            if step is not None and step.end is not None:
                start = step.following = self.mark()
                step.told(t1, mine.count - 1, mine.number)
                self.pending.append(step)
            if t1 >= self.due and len(self.pending) < MOST_PENDING:
                mine.step = self._begin(self.mark() if start is None else start)
            self._collect()
        except Exception as error:
            self.failed(error)
        self.spent += now() - came

    def stepped(self, mine, t1):
        """Mark the end of a step, and the start of the next one, where there is no `next()`: `mine` is an optimizer."""
        if t1 >= allocator.due:
            allocator.look(self)
        if self.errors >= TOO_MANY:
            return
        if self.current is None and not self.pending and t1 < self.due:
            return
        came = now()
        try:
            step, self.current = self.current, None
            dividing.end()
            if not self.usable():
                return
            if self._moved():
                step = None
            due = t1 >= self.due and len(self.pending) < MOST_PENDING
            mark = self.mark() if due or step is not None else None
            if step is not None:
                step.end = step.following = mark
                self.hold.ends(step)
                step.told(t1, mine.count, 0)
                self.pending.append(step)
            if due:
                self._begin(mark)
            self._collect()
        except Exception as error:
            self.failed(error)
        self.spent += now() - came

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
        self._rest(start.t)
        step = self.current = joins.Step(start, self.stream_told)
        self.hold.begins(self, step)
        return step

    def _rest(self, t):
        """Say when the step after the one that begins at `t` is due, by what the one before it has cost."""
        spent, self.spent = self.spent, 0
        self.begun += 1
        self.cost += (min(spent, 4 * self.cost or spent) - self.cost) // min(LATELY, self.begun)
        rest = int(budget.odds(self.begun) * self.cost / SHARE) if self.begun > FREE else 0
        self.due = t + max(5_000_000, rest)  # ns; of batches that come faster than this only so many are timed

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
        self.level = 0
        self.hold.spending.owed = 0
        self.pending.clear()
        self.pool.clear()

    def mark(self, on=None):
        """Return a mark that is on the current stream from now on: of this device, or of the device `on`."""
        mark = self.pool.pop() if self.pool else Mark(self.cuda.Event(enable_timing=True))
        stream = None if on is None else self.cuda.current_stream(on)
        if on is None and self.streams is not None:
            told = self.streams(self.device())
            if told != self.stream_told:
                self.stream, self.stream_told = self.cuda.current_stream(), told
        mark.t = now()
        mark.event.record(self.stream if stream is None else stream)
        mark.done = now()
        return mark

    def _collect(self):
        """Report the steps whose events have passed."""
        while self.pending:
            asked, following = now(), self.pending[0].following
            if not following.event.query():
                self.asked = asked
                break
            step, seen = self.pending.popleft(), now()
            step.settle()
            marks = step.marks()
            for mark in marks:
                self._place(mark)
            # However far the clocks have come apart: it passed between these two looks.
            self.low = min(max(self.low, self.asked - following.at), seen - following.at)
            self.asked = 0
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
            # 2e-5 of the time that passes, by which `low` is let fall between looks: the two clocks come apart
            low = max(low, self.low - int(2e-5 * max(0, mark.t - self.low_at)))
        self.low, self.low_at = low, mark.t

    def _let_go(self, marks, following):
        """Keep the marks for other uses, but for the one that the next is placed from."""
        base, self.base = self.base, following
        self.reuse(mark for mark in marks if mark is not following and mark is not base)
        if base is not following:
            self.reuse([base])

    def reuse(self, marks):
        """Keep marks that nobody holds any more for other uses."""
        self.pool += [mark for mark in marks if not mark.shared]

    def _tell(self, step):
        low, end = self.low, step.end
        late = max(0, end.at + low - end.t)
        lag = min(0xFFFFFFFF, 1 + late // 1000)  # us, that a record has room for
        if not step.held and not step.divided:
            self.level = self.level + 1 if late <= joins.SHORT else 0
        idle, work = step.following.at - end.at, end.at - step.start.at
        code = DIVIDED if step.divided else 0
        if not code:  # of the others it is told how long they took
            ring.record(GAP, 0, end.t, step.returned, idle, work, step.index, step.number, lag)
        copied, read, blocked = step.waits(low, self.copying)
        mask = step.mask(low)
        ring.record(DEVICE, code, step.start.t, end.t, copied, read, blocked, step.behind(low), mask)
        crossed, met = joins.standing(step.crossings, low), joins.standing(step.meetings, low)
        if crossed or met:
            ring.record(CROSSED, code, step.start.t, end.t, crossed, met, 0, 0, 0)
        for segment, t0, t1, took, behind, held in step.segments(low):
            after = 0 if behind is None else 1 + behind
            ring.record(SEGMENT, code | (HELD if held else 0), t0, t1, took, segment, after, held, mask)

    def failed(self, error):
        """Leave the clock alone for a while, or for good."""
        self._forget()
        if failing.of_device(error):
            self.errors = TOO_MANY
            failing.tell(error, sys._getframe(1))
            return
        self.errors += 1
        ring.failed(error)


def keeps_up():
    """Return whether the device does: it is through with each step when the host is, whose rounds are its own then.

    Since the host reads a result at the end of each, or takes longer for them than the device.
    """
    return clock is not None and clock.level >= LATELY


def finish(limit):
    """Tell of all steps that were queued, in a training that ends here: wait for the device, at most `limit` ns."""
    until = now() + limit
    while clock is not None and clock.pending and now() < until:
        clock._collect()
        time.sleep(0.001)  # s between looks whether the device is through, where a trial ends


def _forked():
    """In a forked child: the step under way is the parent's, and nothing can be asked of its device here."""
    if clock is not None:
        clock.current = None
        clock.told = False


wrapping.after_fork(_forked)


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
