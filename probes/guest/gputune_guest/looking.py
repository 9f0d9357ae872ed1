"""The training thread's stacks, seen from inside: where nobody may look from outside, and only once it was asked for.

The recorder asks by a file, `PID.ask` beside the rings, and reads what was seen out of `PID.told`: a line for each
look, its time (ns) and then the stack as py-spy writes it. Whether it asks is looked up on sampled batches.

A thread of its own does the looking. `threading` does not know it: no `active_count()` grows and no exit waits for it.
All signals are blocked in it, so that none is kept from the thread that sleeps. It looks at the frames of the main
thread, never from it. It is ended before a fork, and begun again on a sampled batch behind it: Pythons since 3.12 warn
of a fork beside threads. While it looks nothing is collected, for what must go on a thread of theirs would go on ours:
what was seen is told by the training thread, on a sampled batch.

A look takes the interpreter for as long as the stack is deep. What looks cost is measured, and they come so rarely
that it is a thousandth of the time at the most. The main thread is asked to let go of the interpreter where it is, for
one that waits until it does so by itself would see the calls that wait. That and the look at its frames are done in C
(`_fast.c`); without that part nobody looks. In 3.9 to 3.12 it hears of that once somebody has waited for 5 ms:
plain Python between calls that let go of the interpreter is seen too seldom there.
"""

import _thread
import contextlib
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
TOLD, MOST = 10, 64  # looks that are told together, and that are kept while nobody reads
OPENING = os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
ENDS = 0.2  # s that a fork, or an exit, waits for the thread
FATAL = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS")  # of the thread itself

_looker = None
_over = not hasattr(fast, "rest")  # it is not to begin again; an older build cannot


def due():
    """Begin to look where the recorder has asked for it. For the training thread, now and then; never raises."""
    if _over or ring.at_rest:
        return
    try:
        if _looker is not None:
            if _looker.resting:
                _looker.start()
            _looker.due()
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
    global _looker
    import threading

    _looker = _Looker(path, threading.main_thread().ident)
    _looker.start()


def _end():
    global _looker, _over
    _looker, _over = None, True


class _Looker:
    """Looks at the thread `main`, and tells in the file at `path` what it sees."""

    def __init__(self, path, main):
        self._path, self._pid = path, os.getpid()
        # 250 frames of a stack; of that depth, it is left out
        self._how = sys._current_frames, main, 250, gc.isenabled, gc.disable, gc.enable
        self._began = clock()
        self._looks, self._spent, self._chance = 0, 0.0, 1
        self._kept = []
        self._gone = None
        self._native = 0

    @property
    def resting(self):
        """Return whether its thread was ended for a while."""
        return self._gone is None

    def start(self):
        """Begin the thread."""
        fast.rest_begin()
        self._gone, self._native = _thread.allocate_lock(), 0
        self._gone.acquire()
        blocked = signal.valid_signals() if hasattr(signal, "valid_signals") else range(1, signal.NSIG)
        kept = signal.pthread_sigmask(signal.SIG_BLOCK, ())  # first: a handler may raise where they are blocked
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, set(blocked) - {getattr(signal, name) for name in FATAL})
            _thread.start_new_thread(self._run, (self._gone, self._pause()))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, kept)

    def stop(self):
        """End the thread, and wait until it is gone, though not for long."""
        gone, self._gone = self._gone, None
        if gone is None:
            return
        fast.rest_end()
        if gone.acquire(True, ENDS) and self._native:
            until = clock() + ENDS
            while os.path.exists("/proc/self/task/%d" % self._native) and clock() < until:
                time.sleep(0.0001)

    def _run(self, gone, pause):
        try:
            self._native = _thread.get_native_id()
            while not fast.rest(pause):  # nothing that is allocated here may be a container
                before = cpu()
                self._look()
                self._spent += cpu() - before
                pause = self._pause()
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
        return (self._spent + fast.rest_stood() / 1e9) / (self._looks or 1)

    def _pause(self):
        """Return s to the next look: of a distance that keeps no time with the training."""
        mean = (clock() - self._began) / 300  # looks, after which their distance grows with the time
        mean = SHORTEST if mean < SHORTEST else LONGEST if mean > LONGEST else mean  # a call has a tuple
        dear = self.cost / SHARE if self._looks else 0.0
        mean = dear if dear > mean else mean
        self._chance = (self._chance * 1103515245 + 12345) & 0x7FFFFFFF
        return mean * (0.1 + 1.8 * (self._chance >> 16) / 0x8000)

    def _look(self):
        frames = fast.look(self._how)
        self._looks += 1
        if frames is not None and len(self._kept) < MOST:  # else nobody has read what was told before
            self._kept.append(f"{now()} thread ({self._pid}): MainThread;{frames} 1\n")

    def due(self):
        """Tell what was seen, if that is much. For the training thread: to write a file makes containers."""
        if len(self._kept) >= TOLD:
            before = cpu()
            self.tell()
            self._spent += cpu() - before

    def tell(self):
        """Write what was seen to where the recorder reads it, once it has read what was told before."""
        told = self._path + ".told"
        if not self._kept or os.path.exists(told):
            return
        kept, self._kept = self._kept, []
        with contextlib.suppress(OSError):  # no room, or nobody is there any more
            file = os.open(told + ".new", OPENING, 0o600)
            try:
                os.write(file, "".join(kept).encode("utf-8", "replace"))
            finally:
                os.close(file)
            os.rename(told + ".new", told)  # whole, or not there


def _before_fork():
    if _looker is not None:
        _looker.stop()


def _anew():
    if _looker is not None:
        _looker.stop()  # it is of the run that is over
    _forked()


def _forked():
    global _looker, _over
    _looker, _over = None, not hasattr(fast, "rest")


wrapping.before_fork(_before_fork)
wrapping.after_fork(_forked, anew=False)
wrapping.at_anew(_anew)
wrapping.at_exit(finish)
ring.at_farewell(finish)
ring.at_rest_too(finish)
