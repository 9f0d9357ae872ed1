"""A screen from its first line to its last, on the terminal that this process was started on."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple, TypeAlias

from gputune.feeds.rows import Feed, TaskRow
from gputune.tui.first import LEAVE, first_page
from gputune.tui.leaving import Leaving
from gputune.tui.output import Output
from gputune.tui.roles import Roles
from gputune.tui.views import PageView

STDERR = 2  # where Textual draws

Send: TypeAlias = Callable[[TaskRow, str], str]


class Left(NamedTuple):
    """How a screen was left: by which signal, 0 for none, and whether its terminal has vanished."""

    signal: int
    vanished: bool

    @property
    def death(self) -> int:
        """Return the signal to end by, 0 for none: a terminal that closes ends what runs in it by SIGHUP."""
        return self.signal or (signal.SIGHUP if self.vanished else 0)


class ScreenOptions(NamedTuple):
    """What is to be shown, and how. Signals are sent by `send`, and by nobody without it."""

    start: PageView | None = None
    send: Send | None = None
    dark: bool = True
    plain: bool = False


def show(make: Callable[[], Feed], wish: ScreenOptions = ScreenOptions()) -> Left:  # noqa: B008 - it cannot be changed
    """Show a feed until somebody leaves, and return how. Raises what the feed raised.

    `make` is called in the screen's own thread, once the first page has been drawn. No colour where `NO_COLOR` is set
    and not empty.
    """
    colour = not os.environ.get("NO_COLOR")
    if colour:
        os.environ.pop("NO_COLOR", None)  # set and empty: Textual would take it for set
    encoding = getattr(sys.stderr, "encoding", None) or "ascii"
    wish = wish._replace(plain=wish.plain or not _draws(encoding))
    # 0.001 s: the longest that a thread keeps the interpreter from another one, as from answering a key
    sys.setswitchinterval(0.001)
    failed = None
    with closing(Output(STDERR, encoding, plain=wish.plain)) as output, Leaving(output) as leaving:
        roles = Roles(dark=wish.dark, colour=colour)
        output.write(first_page(shutil.get_terminal_size(), roles, plain=wish.plain))
        output.flush()
        failed = _run(make, wish, output, leaving, colour=colour)
    if failed is not None and not leaving.vanished:
        raise failed
    return Left(leaving.signal, leaving.vanished)


def _run(
    make: Callable[[], Feed], wish: ScreenOptions, output: Output, leaving: Leaving, *, colour: bool
) -> Exception | None:
    """Import Textual, and have it take over; return what has ended it, if it was not somebody's wish."""
    began = False
    try:
        gc.disable()  # what is imported stays: nothing of it is worth looking through for rubbish
        from gputune.tui.app import Gputune  # noqa: PLC0415 - after the first page
        from gputune.tui.driver import writing_to  # noqa: PLC0415 - as above

        app = Gputune(
            make, start=wish.start, send=wish.send, dark=wish.dark, plain=wish.plain, colour=colour,
            driver=writing_to(output),
        )  # fmt: skip
        gc.freeze()
        gc.enable()
        leaving.leave = app.leave_soon
        if leaving.asked:
            return None
        app.run()
        began = app.began
        return app.failed
    finally:
        gc.enable()
        if not began:
            output.write(LEAVE)
            output.flush()


def _draws(encoding: str) -> bool:
    """Return whether blocks and braille can be written."""
    try:
        "█⣿▁".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
