"""Shows the same numbers in Textual's DataTable, brought up to date cell by cell; `tui.py` measures it."""

import sys
import threading

from screen_feed import Simulated, rss, told
from textual.app import App, ComposeResult
from textual.widgets import DataTable

from gputune.feeds.rows import Node

COLUMNS = ("node", "busy", "memory", "power", "cpu", "wait", "smp/s", "finding")


def cells(node: Node) -> list[str]:
    """Return a node's row."""
    numbers = (node.busy or 0, node.filled or 0, node.power or 0, (node.cpu or 0) / (node.cpus or 1), node.wait or 0)
    busy, filled, power, cpu, wait = numbers
    rates = [f"{busy:.0%}", f"{filled:.0%}", f"{power:.0f}W", f"{cpu:.0%}", f"{wait:.0%}", f"{node.rate or 0:.0f}"]
    return [node.name, *rates, node.finding]


class Table(App[None]):
    """One DataTable."""

    def __init__(self, feed: Simulated) -> None:
        super().__init__()
        self._feed = feed

    def compose(self) -> ComposeResult:
        """Return the table."""
        yield DataTable(cursor_type="row")

    def on_mount(self) -> None:
        """Fill it, and go on filling it."""
        self._table = self.query_one(DataTable)
        self._columns = self._table.add_columns(*COLUMNS)
        for node in self._feed.poll(0).nodes:
            self._table.add_row(*cells(node), key=node.name)
        self.set_interval(1.0, self._again)

    def _again(self) -> None:
        for node in self._feed.poll(0).nodes:
            for column, cell in zip(self._columns, cells(node), strict=True):
                self._table.update_cell(node.name, column, cell)


if __name__ == "__main__":
    shown = Simulated(int(sys.argv[1]))
    threading.Thread(target=told, args=(shown, rss()), kwargs={"beside": False}, daemon=True).start()
    Table(shown).run()
