"""Shows so many simulated nodes on gputune's screen; `tui.py` measures it."""

import sys
import threading

from screen_feed import Simulated, rss, told

from gputune.tui.app import View, show

if __name__ == "__main__":
    feed = Simulated(int(sys.argv[1]))
    if "--quiet" not in sys.argv:
        threading.Thread(target=told, args=(feed, rss()), daemon=True).start()
    show(lambda: feed, start=View("nodes"))
