"""Shows so many simulated nodes on gputune's screen; `tui.py` measures it."""

import sys
import threading

from screen_feed import Simulated, rss, told

import gputune.tui.app  # noqa: F401 - here, for what is imported is not counted
from gputune.tui.showing import ScreenOptions, show
from gputune.tui.views import PageView

if __name__ == "__main__":
    feed = Simulated(int(sys.argv[1]))
    if "--quiet" not in sys.argv:
        threading.Thread(target=told, args=(feed, rss()), kwargs={"beside": True}, daemon=True).start()
    show(lambda: feed, ScreenOptions(PageView("nodes")))
