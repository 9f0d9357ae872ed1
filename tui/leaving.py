"""How a screen is left without a key: by a signal, or because the terminal that it is on has vanished."""

import math
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from gputune.launch.descriptors import null
from gputune.tui.output import Output

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
STANDARD = (0, 1, 2)
VANISHED = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Leaving(threading.Thread):
    """Calls `leave`, once there is one, when a signal comes or the terminal vanishes: in a handler, or in this thread.

    It sees to it that nothing waits for the terminal then. To be entered in the main thread, around the screen's life.
    """

    def __init__(self, output: Output) -> None:
        super().__init__(name="leaving", daemon=True)
        self.signal = 0  # the last one that came, 0 for none
        self.vanished = False
        self._output = output
        self.leave: Callable[[], None] = _nothing
        self._woken, self._wake = os.pipe()
        self._over = threading.Event()
        self._before: dict[int, Any] = {}

    @property
    def asked(self) -> bool:
        """Return whether the screen is to be left."""
        return bool(self.signal) or self.vanished

    def __enter__(self) -> "Leaving":
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup`, or a shell's background
                self._before[number] = signal.signal(number, self._met)
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        """End; what went wrong because the terminal is gone is not worth telling: nobody is there."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._over.set()
        os.write(self._wake, b".")
        self.join()
        if not self.vanished and _vanished(0):
            self._gone()
        for descriptor in (self._woken, self._wake):
            os.close(descriptor)
        return self.vanished and isinstance(error, OSError)

    def _met(self, number: int, _frame: FrameType | None) -> None:
        self.signal = number
        os.write(self._wake, b".")
        self.leave()

    def run(self) -> None:
        """Wait for whichever comes first; of a signal, until what was drawn is out, or was to be for long enough."""
        poller = select.poll()
        poller.register(self._woken, select.POLLIN)
        for descriptor in STANDARD:
            poller.register(descriptor, 0)  # what is told unasked: that it has vanished
        until = math.inf  # when the terminal has had time enough
        while not self._over.is_set():
            # 1.0: not every driver wakes those who wait for a terminal to vanish: so we look as well
            left = max(0.0, min(1.0, until - time.monotonic()))
            ready = dict(poller.poll(left * 1000))
            if any(ready.get(descriptor, 0) & VANISHED for descriptor in STANDARD):
                self._gone()
                self.leave()
                return
            if self._woken in ready:
                os.read(self._woken, select.PIPE_BUF)
                # 2.0 s that a terminal gets to take what is still to be drawn once a signal has ended the screen
                until = min(until, time.monotonic() + 2.0)
            if time.monotonic() >= until:
                self._output.give_up()
                return

    def _gone(self) -> None:
        """Put nothing in the terminal's place: whoever still reads or writes meets no error, and no end."""
        self.vanished = True
        self._output.give_up()
        for descriptor in STANDARD:
            if not _vanished(descriptor):
                continue
            if descriptor == 0:
                _silence(descriptor)
            else:
                null(descriptor)


def _nothing() -> None:
    """Do nothing: there is no screen to leave yet, and who makes it asks."""


def _vanished(descriptor: int) -> bool:
    """Return whether a descriptor leads to a terminal that is not there any more."""
    poller = select.poll()
    poller.register(descriptor, 0)
    return any(what & VANISHED for _, what in poller.poll(0))


def _silence(descriptor: int) -> None:
    """Have nothing ever come from a descriptor. Where there is an end of file, Textual asks for more at once."""
    silent, _ = os.pipe()  # the other side stays open for as long as we live
    os.set_blocking(silent, False)
    os.dup2(silent, descriptor, inheritable=False)
    os.close(silent)
