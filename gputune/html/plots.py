"""What was measured over time, as the page's script draws it: lines in points, and pauses as bands behind them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gputune import recording
from gputune.document import Verdict
from gputune.errors import GputuneError
from gputune.events import STOPPING
from gputune.html import kept
from gputune.launch.job import seats
from gputune.recording import Line, Series

FINEST = 0.5  # s of a point: in a shorter one a pace is mostly how many batches happen to end in it
POINTS = 480  # of a line: a plot on a screen has some 900 pixels, and a zoomed one need not be finer than a report
NUMBERS = 150_000  # in a page, of all lines together: some 1 MB
MOST = 8  # lines of one plot: no eye tells more apart
PAUSES = tuple(sorted(STOPPING))
SHARES = ("loader.wait", *PAUSES, "sync", "copy.h2d", "collective")

Points: TypeAlias = list["float | None"]


class Plot(NamedTuple):
    """Lines that are drawn over one another: of these columns of a recording, in this base unit."""

    title: str
    unit: str
    columns: tuple[str, ...]
    most: float | None = None  # the upper end of its axis; None where values set it
    quiet: bool = False  # lines that stay at 0 are left out


def _span(name: str) -> str:
    """Return the column that tells a word's share of the training's time."""
    return "batches.wait/s" if name == "loader.wait" else f"spans.seconds/s[{name}]"


NAMES = {_span(name): name for name in SHARES} | {"batches.samples/s": "samples", "steps/s[optimizer]": "steps"}
PLOTS = (
    Plot("device busy", "ratio", ("gpu.busy",), 1.0),
    Plot("SMs active", "ratio", ("gpu.sm.active",), 1.0),
    Plot("device memory", "B", ("gpu.memory.used",)),
    Plot("device power", "W", ("gpu.power",)),
    Plot("share of the training's time", "ratio", tuple(map(_span, SHARES)), 1.0, quiet=True),
    Plot("batches ready when one is asked for", "1", ("batches.ready",)),
    Plot("pace", "1/s", ("batches.samples/s",)),
    Plot("pace", "1/s", ("steps/s[optimizer]",)),
    Plot("CPUs by role", "cores", ("cpu.main", "cpu.workers", "cpu.rest", "cpu.others")),
    Plot("host memory of the job", "B", ("memory.job",)),
    Plot("disk", "B/s", ("disk.read", "disk.write"), quiet=True),
    Plot("network", "B/s", ("net.received", "net.sent"), quiet=True),
    Plot("pressure: time in which something waited", "ratio", ("pressure.cpu", "pressure.io", "pressure.memory")),
)
ONE_OF = ("batches.samples/s", "steps/s[optimizer]")  # the second only where the first was not measured


class Drawn(NamedTuple):
    """What the script gets, None where nothing was measured, and what of the recording could not be read."""

    data: dict[str, object] | None
    lost: dict[str, str]


def of(folder: Path, verdict: Verdict) -> Drawn:
    """Return the plots of a run folder; of a job of several watches those of its first one. Raises as `series`."""
    lost: dict[str, str] = {}
    place = next((each for each in [folder, *map(Path, seats(str(folder)))] if _is_recording(each)), folder)
    asked = tuple(dict.fromkeys(name for plot in PLOTS for name in plot.columns))
    verdict = verdict if place == folder else kept.verdict(place)
    found = recording.series(place, asked, _points(place, asked, verdict.wall_s), lost=lost)
    trained = max(1, sum(process.seen for process in verdict.processes))  # their shares of time are shown as a mean
    plots = [drawn for plot in PLOTS if (drawn := _plot(plot, found, trained)) is not None]
    bands = [_band(name, found) for name in PAUSES if _span(name) in found.columns]
    if not plots:
        return Drawn(None, lost)
    data = {"of": place.name if place != folder else "", "step": found.step, "times": _short(found.times)}
    return Drawn({**data, "until": found.until, "plots": plots, "bands": bands}, lost)


def _is_recording(folder: Path) -> bool:
    return (folder / "samples").is_dir() or any(folder.glob("frames-*"))


def _points(folder: Path, asked: Iterable[str], wall: float) -> int:
    """Return how many points each line may have."""
    wanted = set(asked)
    columns = sum(name.partition("[")[0] in wanted for name in recording.columns(folder)) + len(SHARES) + len(ONE_OF)
    return max(2, min(POINTS, NUMBERS // (3 * columns), math.ceil(wall / FINEST)))


def _plot(plot: Plot, found: Series, processes: int) -> dict[str, object] | None:
    if plot.columns == ONE_OF[1:] and ONE_OF[0] in found.columns:
        return None
    by = processes if plot.columns == tuple(map(_span, SHARES)) else 1
    lines = [pair for pair in _lines(plot, found) if not (plot.quiet and _is_flat(pair[1]))]
    if not lines:
        return None
    return {
        "title": plot.title,
        "unit": plot.unit,
        "most": plot.most,
        "more": max(0, len(lines) - MOST),
        "lines": [_line(name, line, by) for name, line in lines[:MOST]],
    }


def _lines(plot: Plot, found: Series) -> Iterator[tuple[str, Line]]:
    """Yield a plot's lines and their names: each instance of a metric is one."""
    for wanted in plot.columns:
        for column, line in found.columns.items():
            if column == wanted or column.partition("[")[0] == wanted:
                yield NAMES.get(column, column), line


def _is_flat(line: Line) -> bool:
    return not any(line.max)


def _line(name: str, line: Line, by: int) -> dict[str, object]:
    """Return a line; its least and greatest values only where they are others than its means."""
    mean, least, most = (_short(each, by) for each in (line.mean, line.min, line.max))
    spread = [] if least == mean == most else [least, most]
    return {"name": name, "mean": mean, "spread": spread}


def _band(name: str, found: Series) -> dict[str, object]:
    return {"name": name, "share": _short(found.columns[_span(name)].mean)}


def _short(values: Sequence[float | None], by: int = 1) -> Points:
    """Return numbers with the four digits that a plot shows."""
    return [None if value is None else float(f"{value / by:.4g}") for value in values]


def told(folder: Path, verdict: Verdict) -> Mapping[str, object]:
    """Return what the template takes: the plots, or why there are none."""
    try:
        drawn = of(folder, verdict)
    except (GputuneError, OSError, ValueError) as error:
        return {"plots": None, "no_plots": str(error.args[0]) if isinstance(error, GputuneError) else str(error)}
    lost = ", ".join(f"`{file}`" for file in drawn.lost)
    return {"plots": drawn.data, "no_plots": f"{lost} cannot be read" if lost and drawn.data is None else ""}
