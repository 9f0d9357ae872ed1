"""What was measured over time, as the page's script draws it: lines in points, and pauses as bands behind them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gputune import recording
from gputune.core.errors import GputuneError
from gputune.core.figures import MOSTLY
from gputune.html.columns import NAMES, PAUSES, SAMPLED, SAMPLES, SPANS, STEPS, SUMS, Plot, label, plots
from gputune.launch.job import seats
from gputune.recording import ColumnEnvelope, Series
from gputune.report import kept
from gputune.verdict.document import Verdict

POINTS = 480  # of a line: a plot on a screen has some 900 pixels, and a zoomed one need not be finer than a report
MOST = 8  # lines of one plot: no eye tells more apart
SEEN = 0.01  # of a training's time in a point: a pause that never takes more is no thicker than its own line

Points: TypeAlias = list["float | None"]


class PlotData(NamedTuple):
    """What the script gets, None where nothing was measured, and what of the recording could not be read."""

    data: dict[str, object] | None
    lost: dict[str, str]


def of(folder: Path, verdict: Verdict) -> PlotData:
    """Return the plots of a run folder; of a job of several watches those of its first one. Raises as `series`."""
    lost: dict[str, str] = {}
    place = next((each for each in [folder, *map(Path, seats(str(folder)))] if _is_recording(each)), folder)
    verdict = verdict if place == folder else kept.shown(place)
    trained = max(1, sum(process.seen for process in verdict.processes))
    found, chosen = _measured(place, verdict, lost)
    found = _recorded(found, verdict, trained)
    shown = [drawn for plot in chosen if (drawn := _plot(plot, found, trained)) is not None]
    if not shown:
        return PlotData(None, lost)
    data = {"of": place.name if place != folder else "", "step": found.step, "times": _short(found.times)}
    return PlotData({**data, "until": found.until, "plots": shown, "bands": list(_bands(found))}, lost)


def _is_recording(folder: Path) -> bool:
    return (folder / "samples").is_dir() or any(folder.glob("frames-*"))


def _measured(folder: Path, verdict: Verdict, lost: dict[str, str]) -> tuple[Series, Sequence[Plot]]:
    """Return what was recorded of a run, and the plots that are made of it."""
    known = recording.columns(folder)
    chosen = plots({_metric(name) for name in known}, {row.span for row in verdict.ledger})
    asked = dict.fromkeys(name for plot in chosen for name in plot.columns)
    count = len(asked) + sum(_metric(name) in asked for name in known)
    # A point stands for 0.5 s or more: the pace in a shorter one is how many batches happen to end in it
    # All lines of a page together have 150_000 numbers at the most: some 1 MB
    points = max(2, min(POINTS, 150_000 // (3 * count), math.ceil(verdict.wall_s / 0.5)))
    found = recording.series(folder, asked, points, lost=lost)
    if any(name in found.columns and not _is_flat(found.columns[name]) for name in (SAMPLES, SAMPLED)):
        return found, chosen
    steps = recording.series(folder, [STEPS], points, lost=lost)
    chosen = tuple(plot._replace(columns=(STEPS,)) if plot.title == "pace" else plot for plot in chosen)
    return Series(found.since, found.until, found.step, found.times, {**found.columns, **steps.columns}), chosen


def _recorded(found: Series, verdict: Verdict, trained: int) -> Series:
    """Leave out pauses that nobody would see, and what the ledger knows mostly from elsewhere.

    Of an exchange inside of backward passes nothing is recorded: its line would lie at nothing beside a ledger that
    has much of it.
    """
    told = {row.span: row.seconds for row in verdict.ledger}
    lasted = {name: sum(share or 0.0 for share in line.mean) * found.step for name, line in found.columns.items()}
    poor = {name for name in SPANS if lasted.get(name, 0.0) / trained < MOSTLY * told.get(SPANS[name], 0.0)}
    poor |= {
        name
        for name, line in found.columns.items()
        if name in SPANS and max((share or 0.0 for share in line.max), default=0.0) < SEEN * trained
    }
    columns = {name: line for name, line in found.columns.items() if name not in poor}
    return Series(found.since, found.until, found.step, found.times, columns)


def _metric(column: str) -> str:
    return column.partition("[")[0]


def _plot(plot: Plot, found: Series, trained: int) -> dict[str, object] | None:
    lines = [pair for pair in _lines(plot, found) if not (plot.quiet and _is_flat(pair[1]))]
    if not any(_is_line(line) for _, line in lines):
        return None
    return {
        "title": plot.title,
        "unit": plot.unit,
        "most": plot.most,
        "more": max(0, len(lines) - MOST),
        "lines": [
            # 3 lines of a plot whose spreads can be told apart
            _line(column, line, trained if column in SUMS else 1, shaded=len(lines) <= 3)
            for column, line in lines[:MOST]
        ],
    }


def _lines(plot: Plot, found: Series) -> Iterator[tuple[str, ColumnEnvelope]]:
    """Yield a plot's columns: each instance of a metric is one."""
    for wanted in plot.columns:
        for column, line in found.columns.items():
            if column == wanted or _metric(column) == wanted:
                yield column, line


def _is_flat(line: ColumnEnvelope) -> bool:
    return not any(line.max)


def _is_line(line: ColumnEnvelope) -> bool:
    """Return whether it was read more than once: a single dot shows nothing over time."""
    return sum(value is not None for value in line.mean) > 1


def _line(column: str, line: ColumnEnvelope, by: int, *, shaded: bool) -> dict[str, object]:
    """Return a line; its least and greatest values only where they are drawn, and others than its means."""
    mean, least, most = (_short(each, by) for each in (line.mean, line.min, line.max))
    spread = [least, most] if shaded and not least == mean == most else []
    return {"name": NAMES.get(column, column), "label": label(column), "mean": mean, "spread": spread}


def _bands(found: Series) -> Iterable[dict[str, object]]:
    for column, name in SPANS.items():
        if name in PAUSES and column in found.columns:
            yield {"name": name, "share": _short(found.columns[column].mean)}


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
