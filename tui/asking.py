"""The thread that asks the feed, so that the screen never waits for a disk, a driver or a network."""

import threading
import time
from collections.abc import Callable

from gputune.feeds.rows import Feed, Update

PERIOD = 1.0  # s between polls
SOONEST = 0.02  # s between polls where there is more at once: the screen gets to draw in between
PATIENCE = 2.0  # s that a poll which is under way gets when the screen is left


class Asking(threading.Thread):
    """Makes a feed, polls it until it is told to stop, and closes it. `tell` and `fail` are called in this thread."""

    def __init__(
        self, make: Callable[[], Feed], tell: Callable[[Update], None], fail: Callable[[Exception], None]
    ) -> None:
        super().__init__(name="feed", daemon=True)
        self._make = make
        self._tell = tell
        self._fail = fail
        self._news = threading.Event()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._sought: dict[str, float | None] = {}
        self._looks: tuple[str, int] | None = None

    def look_at(self, node: str, span: int) -> None:
        """Ask for the past of a machine, at once; the last such wish counts."""
        with self._lock:
            self._looks = (node, span)
        self._news.set()

    def seek(self, run: str, at: float | None) -> None:
        """Ask for a moment of a run, at once; of several such wishes for one run the last one counts."""
        with self._lock:
            self._sought[run] = at
        self._news.set()

    def stop(self) -> None:
        """End it, and wait for that, but not for ever."""
        self._over.set()
        self._news.set()
        if self.is_alive():
            self.join(PATIENCE)

    def run(self) -> None:
        """Make the feed, and poll it."""
        feed = None
        since = 0
        try:
            feed = self._make()
            while not self._over.is_set():
                began = time.monotonic()
                self._news.clear()
                with self._lock:
                    sought, self._sought = self._sought, {}
                    looks, self._looks = self._looks, None
                if looks is not None:
                    feed.look_at(*looks)
                for run, at in sought.items():
                    feed.seek(run, at)
                update = feed.poll(since)
                since = update.until
                if not self._over.is_set():
                    self._tell(update)
                pause = SOONEST if update.more else PERIOD - (time.monotonic() - began)
                self._news.wait(max(SOONEST, pause))
        except Exception as error:  # noqa: BLE001 - it ends the screen, and is told by the command as any other
            if not self._over.is_set():
                self._fail(error)
        finally:
            if feed is not None:
                feed.close()
