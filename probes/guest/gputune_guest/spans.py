"""Pauses of the training: one record around a call that is no training, and the place in the user's code that made it.

A pause counts once, for the outermost call: the `fsync` inside `torch.save` is checkpoint, and what a dataset prints
or downloads inside `next()` is waiting for data. But a log line or a report that reads a tensor waits for the device's
work first: that is a record of its own, before the rest. In a DataLoader worker nothing is recorded here.
"""

import _thread
import functools
import sys

from gputune_guest import drawing, places, ring, wrapping
from gputune_guest.words import CHECKPOINT, CLEANUP, LOGGING, REPORTING, SPAN, SYNC

now = ring.now
record = ring.record
mark = ring.mark
here = ring.here
get_ident = _thread.get_ident

SHORT = ring.SHORT
JOIN = 100_000  # ns; calls that follow each other so closely are one pause, with the work in between to make them
APART = 2_000_000  # ns; those that do so are one record, without it: there are no more than 500 of these a second
KINDS = 2  # that a record has room for
LONGEST = 200_000_000  # ns that a record may wait for more of its kind
SYNCS = frozenset(["os.fsync", "os.fdatasync"])
NOTHING = frozenset([0])  # a thread is in nothing that counts as one
DRAWN = frozenset([CHECKPOINT, LOGGING, REPORTING, CLEANUP])  # may come more rarely: do they draw random numbers?
READING = frozenset([0, LOGGING, REPORTING])  # or in what may read tensors: that wait is told apart

silent = False  # in a worker
last = 0  # code of the last span that was written as it ended
meeting = None  # where the device has a clock: what it asks about waits for it (joins.Meeting)
_sites = {}  # (code, line, what) to id


class _Local(_thread._local):
    depth = 0  # what this thread is in that counts as one thing, whatever it calls: the code of its span
    waited = 0  # ns that it waited for the device in that
    modes = False  # it is inside Module.train() of an outer module
    schedstat = None  # descriptor of this thread's schedstat (fetch.py)
    short = False  # its last fetch was a short one
    io = None  # descriptor of this thread's I/O counters (reads.py)


local = _Local()


def timed(  # noqa: C901, PLR0913, PLR0917 - options, and what is decided by them once a call
    code, what, least=0, marked=False, anywhere=True, wanted=None, size=None, joined=False
):
    """Return a function for `patching.patch` that puts a span of `code` around the original.

    `least` ns is worth a record; `joined`: calls of the training thread in close succession are one record; `marked`:
    say that it begins, because it may be long; `anywhere`: on all threads; `wanted(args)` decides before the call,
    `size(args, kwargs)` tells the bytes after it.
    """
    within = READING if code == SYNC else NOTHING

    def before(args, kwargs):
        if silent or local.depth not in within or (here.waiting and get_ident() == here.trainer):
            return None
        if not (anywhere or get_ident() == here.trainer) or not (wanted is None or wanted(args)):
            return None
        if local.depth:
            return _reads()
        look = drawing.begin(code) if code in DRAWN and get_ident() == here.trainer else None
        local.depth = code
        t0 = now()
        if marked:
            mark(SPAN, code, t0)
        return t0, _meets(code), None, (args, kwargs), look

    def after(begun, _result, _error):
        t1 = now()
        t0, step, outer, given, look = begun
        if outer is not None:
            _have_read(begun)
            return
        local.depth = 0
        drawing.end(look)
        _met(step)
        if local.waited:
            t0 = _waited(t0, what, sys._getframe().f_back)
        if joined and get_ident() == here.trainer:
            prolong(code, t0, t1, what, sys._getframe().f_back)
        elif t1 - t0 >= least:
            write(code, t0, t1, what, sys._getframe().f_back, _measured(size, *given))

    return functools.partial(wrapping.traced, before=before, after=after)


def _meets(code):
    """Have the device's clock know that the thread is about to wait for it. Returns the step that is timed, or None."""
    return meeting.before() if code == SYNC and meeting is not None else None


def _met(step):
    if step is not None:
        meeting.after(step)


def _reads():
    """Begin to wait for the device inside a log line or a report; what the call makes in turn is the same wait."""
    outer, local.depth = local.depth, SYNC
    return now(), _meets(SYNC), outer, None, None


def _have_read(begun):
    t0, step, outer = begun[:3]
    local.waited += now() - t0
    local.depth = outer
    _met(step)


def _waited(t0, what, frame):
    """Record the waits inside of what began at `t0`, as if they had all come first. Returns when they were over."""
    t1, local.waited = t0 + local.waited, 0
    write(SYNC, t0, t1, what, frame)
    return t1


class Burst:
    """Calls of the training thread, of one kind or two, that follow each other closely: one record.

    It is written when anything else is. `took` is ns in them, and between those that are next to each other; `parts`
    are the site, the count and the ns of each `what`.
    """

    __slots__ = ("code", "parts", "t0", "t1", "took")

    def __init__(self, code, t0):
        self.code, self.t0, self.t1, self.took, self.parts = code, t0, t0, 0, {}

    def takes(self, code, t0, what):
        """Return whether a call that began at `t0` belongs to it."""
        fits = what in self.parts or len(self.parts) < KINDS
        return code == self.code and fits and t0 - self.t1 < APART and t0 - self.t0 < LONGEST

    def add(self, t0, t1, what, frame):
        """Add a call."""
        gap = t0 - self.t1
        self.took += t1 - t0 + (gap if gap < JOIN else 0)
        self.t1 = t1
        part = self.parts.get(what)
        if part is None:
            part = self.parts[what] = [site(frame, what), 0, 0]
        part[1] += 1
        part[2] += t1 - t0

    def fields(self):
        """Return those of its record, as if all calls had come at its end."""
        kinds = sorted(self.parts.values(), key=_took, reverse=True)
        number, count, ns = kinds[1] if len(kinds) > 1 else (0, 0, 0)
        return SPAN, self.code, self.t1 - self.took, self.t1, kinds[0][0], ns, number | count << 16, 0, kinds[0][1]


def _took(part):
    return part[2]


def prolong(code, t0, t1, what, frame):
    """Add a call to the burst that is open, or open one. Syncing what was just saved belongs to that."""
    try:
        burst = here.burst
        if burst is not None and not burst.takes(code, t0, what):
            ring.end_burst()
            burst = None
        if burst is None:
            if last == CHECKPOINT and what in SYNCS:
                write(code, t0, t1, what, frame, 0, 1)
                return
            burst = here.burst = Burst(code, t0)
        burst.add(t0, t1, what, frame)
    except Exception as error:
        ring.failed(error)


def _measured(size, args, kwargs):
    """Return the bytes that `size` tells, 0 if it cannot: what the arguments are is theirs."""
    if size is None:
        return 0
    try:
        return int(size(args, kwargs))
    except Exception:
        return 0


def write(code, t0, t1, what, frame, size=0, c=0):  # noqa: PLR0913, PLR0917 - one record's fields
    """Record a span that the code above `frame` made."""
    global last
    try:
        ident = get_ident()
        record(SPAN, code, t0, t1, site(frame, what), size, 0, 0 if ident == here.trainer else ident, c)
        last = code
    except Exception as error:
        ring.failed(error)


def site(frame, what):
    """Return the id of the user's place that is calling, and tell it when it is new.

    0 when there are too many, and where no Python code is calling, as at the interpreter's end (`frame` is None).
    """
    if frame is None:
        return 0
    frame = places.user_frame(frame)
    key = (frame.f_code, frame.f_lineno, what)
    number = _sites.get(key)
    if number is None:
        if len(_sites) >= 512:  # places that are told apart; the ones that come later have none
            return 0
        number = _sites[key] = len(_sites) + 1
        filename = frame.f_code.co_filename
        ring.note(n="site", id=number, where=places.name(filename, frame.f_lineno), what=what, file=filename)
    return number


def silence():
    """Record no spans from here on: this process makes batches, it does not train."""
    global silent
    silent = True


def in_next():
    """Return whether this is the training thread, in a next(): what happens there is waiting for data."""
    return here.waiting and get_ident() == here.trainer


def train_here():
    """Take the calling thread for the training thread: it imported torch, or then made the first step."""
    here.trainer = get_ident()
    here.waiting = False


def _forked():
    global silent
    silent = False
    _sites.clear()
    train_here()


train_here()
wrapping.after_fork(_forked)
