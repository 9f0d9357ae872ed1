"""How the recorder learns that the command has ended: from the supervisor, or from the kernel when that one is gone."""

import os
import select
import signal
import time

from gputune.launch.link import Ended, PipeEnd, Spoken

LOOK_S = 1.0  # s between looks at /proc, on a kernel that has no pidfd
UNKNOWN = None  # the exit code of a command whose parent is gone: only a parent is told


class End:
    """Asked after every beat whether the command has ended; its descriptor turns readable when there may be news.

    Without a `link` there is no supervisor: the process is somebody else's child.
    """

    def __init__(self, link: PipeEnd | None, pid: int) -> None:
        self.ended: Ended | None = None
        self.status: int | None = None  # what to leave with instead of the command's own, as it will be told
        self.alone = False  # the supervisor is gone: nobody waits for us, and nobody wants to read us
        self._link = link
        self._pid = pid
        self._events = select.epoll()
        try:
            self._process = os.pidfd_open(pid)
        except OSError:  # a kernel before 5.3, or it has ended already
            self._process = -1
        if link is not None:
            self._events.register(link.fileno(), select.EPOLLIN)
        else:
            self._watch_process()

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._events.fileno()

    def __call__(self) -> bool:
        """Return whether the command has ended."""
        for descriptor, _event in self._events.poll(0):
            if self._link is not None and descriptor == self._link.fileno():
                self._hear(self._link)
            else:
                self._over()
        if self.alone and self._process < 0 and not self.lives():
            self._over()
        return self.ended is not None

    def wait(self, longest: float | None = None) -> bool:
        """Wait for the end, at most `longest` seconds; return whether it has come."""
        until = None if longest is None else time.monotonic() + longest
        while not self():
            left = LOOK_S if until is None else min(LOOK_S, until - time.monotonic())
            if left <= 0:
                return False
            select.select([self._events.fileno()], [], [], left)
        return True

    def spoken(self) -> None:
        """Tell the supervisor that the verdict was given: no later life is to give it again."""
        if self._link is not None:
            self._link.send(Spoken(self.status))

    def terminate(self) -> None:
        """Ask the command to end; nothing where it has ended already."""
        try:
            if self._process >= 0:
                signal.pidfd_send_signal(self._process, signal.SIGTERM)
            else:
                os.kill(self._pid, signal.SIGTERM)
        except (ProcessLookupError, PermissionError):  # ended just now, or runs as somebody else
            return

    def result(self) -> Ended:
        """Return how it ended; when that is not known yet, as of now."""
        return self.ended or Ended(UNKNOWN, time.monotonic_ns(), 0.0, 0)

    def lives(self) -> bool:
        """Return whether its process is there: asked where the kernel does not tell us."""
        return _lives(self._pid)

    def _watch_process(self) -> None:
        if self._process >= 0:
            self._events.register(self._process, select.EPOLLIN)

    def _hear(self, link: PipeEnd) -> None:
        message = link.receive()
        if isinstance(message, Ended):
            self.ended = message
        elif message is None:
            self.alone = True
            self._events.unregister(link.fileno())
            self._watch_process()

    def _over(self) -> None:
        if self.ended is None:
            self.ended = Ended(UNKNOWN, time.monotonic_ns(), 0.0, 0)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs as somebody else
        return True
    return True
