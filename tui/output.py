"""The side of a terminal that is written to. It may vanish, or take nothing any more: neither may hold the screen up.

Textual hands what it draws to a thread, through a short queue. Where that thread dies of a write that failed, or waits
in one for ever, the queue fills up, and the next drawing stops the application for good.
"""

import os
import select

KEPT_CHARS = 1 << 16  # characters that are kept back at the most until they are flushed
PLAIN = str.maketrans({  # what Textual's own widgets are drawn with, the command palette's
    **dict.fromkeys("─━═▔╌", "-"), **dict.fromkeys("│┃║▏▎▌▊▕▐┊", "|"), **dict.fromkeys("┌┐└┘╭╮╰╯┏┓┗┛", "+"),
    "▁": "_", "█": "#", "•": "*", "…": "~", "▶": ">", "▼": "v", "▲": "^", "🔎": "? ",
})  # fmt: skip


class Output:
    """Takes text as a file does. Once nobody has the terminal open any more, or `give_up` was called, it drops it.

    It writes to the terminal through a descriptor of its own where it may: that one does not block, and those that we
    were given, which the shell shares with us, stay as they are. `plain`: ASCII, and nothing else.
    """

    def __init__(self, descriptor: int, encoding: str = "utf-8", *, plain: bool = False) -> None:
        self.gave_up = False
        self._encoding = "ascii" if plain else encoding
        self._plain = plain
        self._given = descriptor
        self._own = _again(descriptor)
        self._stopped, self._stop = os.pipe()
        self._kept: list[str] = []
        self._size = 0

    def fileno(self) -> int:
        """Return the descriptor that we were given."""
        return self._given

    def isatty(self) -> bool:
        """Return whether it is a terminal: it was asked for one."""
        return True

    def write(self, text: str) -> int:
        """Take text; it is there once it was flushed."""
        self._kept.append(text.translate(PLAIN) if self._plain else text)
        self._size += len(text)
        if self._size >= KEPT_CHARS:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Write what was taken; return when that is done, or not wanted any more."""
        text, self._kept, self._size = "".join(self._kept), [], 0
        left = memoryview(text.encode(self._encoding, "replace"))
        while left and not self.gave_up:
            left = left[self._written(left) :]

    def _written(self, data: memoryview) -> int:
        """Write what the terminal takes now; return how much that was."""
        try:
            return os.write(self._given if self._own < 0 else self._own, data)
        except BlockingIOError:
            self._wait()
        except OSError:  # nobody has it open any more
            self.gave_up = True
        return 0

    def _wait(self) -> None:
        """Wait until the terminal takes something, has vanished, or we gave up."""
        poller = select.poll()
        poller.register(self._own, select.POLLOUT)
        poller.register(self._stopped, select.POLLIN)
        poller.poll()

    def give_up(self) -> None:
        """Write nothing any more; may be called from any thread, also while another one is in `flush`."""
        self.gave_up = True
        os.write(self._stop, b".")

    def close(self) -> None:
        """Give back what is our own."""
        for descriptor in (self._own, self._stopped, self._stop):
            if descriptor >= 0:
                os.close(descriptor)


def _again(descriptor: int) -> int:
    """Return the terminal opened once more, not blocking; -1 where that may not be: another user's, or out of sight."""
    try:
        return os.open(os.ttyname(descriptor), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1
