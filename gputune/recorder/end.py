"""How the recorder learns that the command has ended: from the supervisor, or from the kernel when that one is gone."""

import os
import select
import time

from gputune.launch.link import Ended, Link, Spoken

BEAT = 1.0  # s between looks at /proc, on a kernel that has no pidfd
UNKNOWN = None  # the exit code of a command whose parent is gone: only a parent is told


class End:
    """Asked after every beat whether the command has ended; its descriptor turns readable when there may be news."""

    def __init__(self, link: Link, pid: int) -> None:
        self.ended: Ended | None = None
        self.alone = False  # the supervisor is gone: nobody waits for us, and nobody wants to read us
        self._link = link
        self._pid = pid
        self._events = select.epoll()
        self._events.register(link.fileno(), select.EPOLLIN)
        try:
            self._process = os.pidfd_open(pid)
        except OSError:  # a kernel before 5.3, or it has ended already
            self._process = -1

    def fileno(self) -> int:
        """Return the descriptor to wait for."""
        return self._events.fileno()

    def __call__(self) -> bool:
        """Return whether the command has ended."""
        for descriptor, _event in self._events.poll(0):
            if descriptor == self._link.fileno():
                self._hear()
            else:
                self._over()
        if self.alone and self._process < 0 and not _lives(self._pid):
            self._over()
        return self.ended is not None

    def wait(self, longest: float | None = None) -> bool:
        """Wait for the end, at most `longest` seconds; return whether it has come."""
        until = None if longest is None else time.monotonic() + longest
        while not self():
            left = BEAT if until is None else min(BEAT, until - time.monotonic())
            if left <= 0:
                return False
            select.select([self._events.fileno()], [], [], left)
        return True

    def spoken(self) -> None:
        """Tell the supervisor that the verdict was given: no later life is to give it again."""
        self._link.send(Spoken())

    def result(self) -> Ended:
        """Return how it ended; when that is not known yet, as of now."""
        return self.ended or Ended(UNKNOWN, time.monotonic_ns(), 0.0, 0)

    def _hear(self) -> None:
        message = self._link.receive()
        if isinstance(message, Ended):
            self.ended = message
        elif message is None:
            self.alone = True
            self._events.unregister(self._link.fileno())
            if self._process >= 0:
                self._events.register(self._process, select.EPOLLIN)

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
