"""How a run went, as plots: device busy, loader wait, pace, batches ready, and where in time one looks."""

from collections.abc import Sequence
from typing import NamedTuple

from gputune.feeds.rows import History
from gputune.tui import words
from gputune.tui.drawing import CURSOR, Value, ceiling, plot
from gputune.tui.lines import Canvas, Line, beside, fit, line, titled

LOWEST, HIGHEST = 3, 9  # lines of a plot
GAPS = 3  # that are named
TICKS, TICK = 4, 12  # stretches of the axis at the most, and cells of one at the least


class PlotSeries(NamedTuple):
    """One plot: its name, its values, the value at its top, and its role."""

    name: str
    values: Sequence[Value]
    top: float
    role: str

    def told(self, value: Value) -> str:
        """Return one of its values in words."""
        return words.percent(value) if self.role in {"busy", "wait"} else words.pace(value)


class PlotArea(NamedTuple):
    """The room of one plot, in cells; `at` is the point that is looked at, None for the latest."""

    width: int
    height: int
    at: int | None
    plain: bool


def history_lines(history: History, look: Canvas, length: float, cursor: float | None) -> list[Line]:
    """Return the plots, two side by side where there is room, and the axis of time below."""
    count = len(history.busy)
    title = titled(" HOW IT WENT", look.width, "<- -> to look back " if look.plain else "← → to look back ")
    if not count:
        return [title, line(("  nothing was read yet", "dim"))]
    across = 2 if look.width >= 64 else 1  # columns from which on two plots stand side by side
    width = max(1, (look.width - 2 - 2 * (across - 1)) // across)
    height = min(HIGHEST, max(LOWEST, (look.height - 18) // (4 // across)))
    frame = PlotArea(width, height, None if cursor is None else _place(history, cursor), look.plain)
    blocks = [_plot(series, frame) for series in _shown(history)]
    lines: list[Line] = [title]
    for first in range(0, len(blocks), across):
        row = blocks[first : first + across]
        lines += beside(row[0], row[1], width + 1) if len(row) > 1 else row[0]
    end = history.began + count * history.step
    axis = [_axis(history.began, min(end, length) if length else end, frame)]
    lines += beside(axis, axis, width + 1) if across == 2 and len(blocks) > 1 else axis
    return [*lines, *_gaps(history, look)]


def _axis(began: float, end: float, frame: PlotArea) -> Line:
    """Return the axis of time, s since the run's start: both ends, and quarters where there is room."""
    mark, ticks, text = "'" if frame.plain else "╵", max(1, min(TICKS, frame.width // TICK)), ""
    for tick in range(ticks):
        text = f"{text:<{frame.width * tick // ticks}}{mark}{words.clock(began + (end - began) * tick / ticks)}"
    last = words.clock(end) + mark
    return line((f" {text:<{max(0, frame.width - len(last))}}{last}", "dim"))


def _gaps(history: History, look: Canvas) -> list[Line]:
    """Return when nothing could be read, the longest such times, in a line."""
    longest = sorted(history.gaps, key=lambda gap: -gap[1])[:GAPS]
    told = [f"{words.lasted(length)} at {words.clock(began)}" for began, length in sorted(longest)]
    more = f" and {len(history.gaps) - GAPS} shorter ones" if len(history.gaps) > GAPS else ""
    said = f" nothing could be read for {', '.join(told)}{more}"
    return [line((fit(said, look.width), "warn"))] if told else []


def _shown(history: History) -> list[PlotSeries]:
    """Return the series of which anything is known."""
    series = [
        PlotSeries("device busy", history.busy, 1.0, "busy"),
        PlotSeries("loader wait", history.wait, 1.0, "wait"),
        PlotSeries(history.unit, history.rate, ceiling(history.rate), "pace"),
        PlotSeries("batches ready", history.queue, ceiling(history.queue), "queue"),
    ]
    return [s for s in series if any(value is not None for value in s.values)] or series[:1]


def _plot(series: PlotSeries, frame: PlotArea) -> list[Line]:
    values, width = series.values, frame.width
    place = _latest(values) if frame.at is None else frame.at
    value = values[place] if place is not None and place < len(values) else None
    note = f"{series.told(value)} · top {series.told(series.top)}"
    lines = [line((f" {fit(series.name, max(1, width - len(note)))}", "label"), (note, "value"))]
    column = None if frame.at is None else min(width - 1, (2 * frame.at + 1) * width // (2 * max(1, len(values))))
    for row in plot(values, width, frame.height, top=series.top, plain=frame.plain):
        if column is None:
            lines.append(line((f" {row}", series.role)))
        else:
            mark = "|" if frame.plain else CURSOR
            parts = (f" {row[:column]}", series.role), (mark, "cursor"), (row[column + 1 :], series.role)
            lines.append(line(*parts))
    return lines


def _latest(values: Sequence[Value]) -> int | None:
    return next((k for k in range(len(values) - 1, -1, -1) if values[k] is not None), None)


def _place(history: History, cursor: float) -> int:
    """Return the point of the history that `cursor` (s) lies in."""
    return min(len(history.busy) - 1, max(0, int((cursor - history.began) / history.step)))
