"""The training thread's stacks, seen from inside: where nobody may look from outside, and only once it was asked for.

The recorder asks by a file, `PID.ask` beside the rings, and reads what was seen out of `PID.told`: a line for each
look, its time (ns) and then the stack as py-spy writes it. Whether it asks is looked up on sampled batches.

A thread of its own does the looking. `threading` does not know it: no `active_count()` grows and no exit waits for it.
All signals are blocked in it, so that none is kept from the thread that sleeps. It looks at the frames of the main
thread, never from it. It is ended before a fork, and begun again on a sampled batch behind it: Pythons since 3.12 warn
of a fork beside threads. While it looks nothing is collected, for what must go on a thread of theirs would go on ours.

A look takes the interpreter for as long as the stack is deep. What looks cost is measured, and they come so rarely
that it is a thousandth of the time at the most. In C the main thread is asked to let go of the interpreter where it is
(`_fast.c`). Without that (in 3.9, too), a look waits until it does so by itself, at the next call that waits or after
the switch interval: then plain Python that takes turns with such calls shows these more than itself.
"""

import _thread
import contextlib
import functools
import gc
import os
import signal
import sys
import time

from gputune_guest import ring, wrapping
from gputune_guest.here import fast

now = ring.now
clock = time.monotonic
cpu = getattr(time, "thread_time", time.process_time)

SHARE = 0.001  # of the time, for all looks
SHORTEST, LONGEST = 0.1, 4.0  # s between two looks: as py-spy's bursts, spread out
SETTLED = 300  # looks, after which their distance grows with the time
TOLD, MOST = 10, 64  # looks that are told together, and that are kept while nobody reads
DEEP = 250  # frames of a stack; a deeper one is left out
OPENING = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
ENDS = 0.2  # s that a fork, or an exit, waits for the thread
FATAL = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")  # of the thread itself

_looker = None
_over = False  # it is not to begin again


def due():
    """Begin to look where the recorder has asked for it. For the training thread, now and then; never raises."""
    if _over or ring.at_rest or (_looker is not None and not _looker.resting):
        return
    try:
        if _looker is not None:
            _looker.start()
            return
        path = "%s/%d" % (os.environ["GPUTUNE_RINGS"], os.getpid())
        if os.path.exists(path + ".ask"):
            _begin(path)
    except Exception as error:
        _end()
        ring.failed(error)


def finish():
    """Look no more, and tell what was seen: the process ends."""
    looker = _looker
    _end()
    if looker is not None:
        looker.stop()
        looker.tell()


def _begin(path):
    global _looker, _over
    locked = getattr(sys, "_is_gil_enabled", None)
    if locked is not None and not locked():  # nothing keeps frames and collections still meanwhile
        _over = True
        return
    import threading

    _looker = _Looker(path, threading.main_thread().ident)
    _looker.start()


def _end():
    global _looker, _over
    _looker, _over = None, True


class _Rests:
    """What `_fast.c` has as `rest_begin`, `rest` and `rest_end`, without the last word on where it finds the others."""

    def rest_begin(self):
        """Make ready for a thread that rests."""
        self._over = _thread.allocate_lock()
        self._over.acquire()
        self.rest = functools.partial(self._over.acquire, True)

    def rest_stood(self):
        """Return ns that the main thread was held up by it: none but what every thread costs."""
        return 0

    def rest_end(self):
        """Have whoever rests return at once."""
        self._over.release()


class _Looker:
    """Looks at the thread `main`, and tells in the file at `path` what it sees."""

    def __init__(self, path, main):
        self._path, self._main, self._pid = path, main, os.getpid()
        self._began = clock()
        self._looks, self._spent, self._chance = 0, 0.0, 1
        self._kept = []
        self._rests = fast if hasattr(fast, "rest") else _Rests()  # an older build has none
        self._gone = None
        self._native = 0

    @property
    def resting(self):
        """Return whether its thread was ended for a while."""
        return self._gone is None

    def start(self):
        """Begin the thread."""
        self._rests.rest_begin()
        self._gone, self._native = _thread.allocate_lock(), 0
        self._gone.acquire()
        blocked = signal.valid_signals() if hasattr(signal, "valid_signals") else range(1, signal.NSIG)
        kept = signal.pthread_sigmask(signal.SIG_BLOCK, set(blocked) - {getattr(signal, name) for name in FATAL})
        try:
            _thread.start_new_thread(self._run, (self._rests.rest, self._gone))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, kept)

    def stop(self):
        """End the thread, and wait until it is gone, though not for long."""
        gone, self._gone = self._gone, None
        if gone is None:
            return
        self._rests.rest_end()
        if gone.acquire(True, ENDS) and self._native:
            until = clock() + ENDS
            while os.path.exists("/proc/self/task/%d" % self._native) and clock() < until:
                time.sleep(0.0001)

    def _run(self, rest, gone):
        try:
            self._native = _thread.get_native_id()
            pause = self._pause()
            while not rest(pause):
                collecting = gc.isenabled()
                if collecting:
                    gc.disable()
                try:
                    before = cpu()
                    self._look()
                    self._spent += cpu() - before
                    pause = self._pause()
                finally:
                    if collecting:
                        gc.enable()
                if ring.at_rest:
                    break
        except Exception as error:
            _end()
            wrapping.swallow(error)
        finally:
            gone.release()

    @property
    def cost(self):
        """Return s that a look takes of the main thread's time."""
        return (self._spent + self._rests.rest_stood() / 1e9) / max(1, self._looks)

    def _pause(self):
        """Return s to the next look: of a distance that keeps no time with the training."""
        mean = min(LONGEST, max(SHORTEST, (clock() - self._began) / SETTLED))
        if self._looks:
            mean = max(mean, self.cost / SHARE)
        self._chance = (self._chance * 1103515245 + 12345) & 0x7FFFFFFF
        return mean * (0.1 + 1.8 * (self._chance >> 16) / 0x8000)

    def _look(self):
        line = _stack(sys._current_frames().get(self._main))  # first: else it has gone on by then
        self._looks += 1
        if line and (len(self._kept) < MOST or self.tell()):  # else nobody has read what was told before
            self._kept.append("%d thread (%d): MainThread;%s 1\n" % (now(), self._pid, line))
        if len(self._kept) >= TOLD:
            self.tell()

    def tell(self):
        """Write what was seen to where the recorder reads it; return whether what was told before has been read."""
        told = self._path + ".told"
        if os.path.exists(told):
            return False
        kept, self._kept = self._kept, []
        if not kept:
            return True
        with contextlib.suppress(OSError):  # no room, or nobody is there any more
            file = os.open(told + ".new", OPENING, 0o600)
            try:
                os.write(file, "".join(kept).encode("utf-8", "replace"))
            finally:
                os.close(file)
            os.rename(told + ".new", told)  # whole, or not there
        return True


def _stack(frame):
    """Return the frames from the outermost to the innermost one, as py-spy writes them; "" of a stack without end."""
    frames = []
    while frame is not None:
        if len(frames) == DEEP:
            return ""
        code = frame.f_code
        frames.append("%s (%s:%d)" % (code.co_name, code.co_filename, frame.f_lineno or 0))
        frame = frame.f_back
    frames.reverse()
    return ";".join([each.replace(";", ",").replace("\n", " ") for each in frames])


def _before_fork():
    if _looker is not None:
        _looker.stop()


def _forked():
    global _looker, _over
    _looker, _over = None, False


os.register_at_fork(before=wrapping.quiet(_before_fork))
wrapping.after_fork(_forked)
wrapping.at_exit(finish)
ring.at_farewell(finish)
