"""The history of a run as a few hundred points, however long it was: what plots, comparisons and exporters draw."""

import importlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gputune.core import opening
from gputune.recording.about import offset, read
from gputune.recording.folder import Folder

Points = tuple["float | None", ...]


@dataclass(frozen=True, slots=True)
class ColumnEnvelope:
    """One column: the least, the mean and the greatest of its readings in each point, in `unit`.

    None is a gap: nothing was read there. A counter (`disk.read[sda]`) is shown as what it grew by a second.
    """

    unit: str
    min: Points
    mean: Points
    max: Points


@dataclass(frozen=True, slots=True)
class Series:
    """A run from `since` to `until`, s after its start, in points of `step` s each.

    `times[k]` is where point k begins, s after the run's start. `columns` has what was asked for and was measured.
    """

    since: float
    until: float
    step: float
    times: tuple[float, ...]
    columns: Mapping[str, ColumnEnvelope]


def series(  # noqa: PLR0913 - what is asked of a recording, each by its name
    folder: str | Path,
    columns: Iterable[str],
    points: int,
    since: float | None = None,
    until: float | None = None,
    *,
    lost: dict[str, str] | None = None,
) -> Series:
    """Return columns of the run in `folder` in at most `points` points, also while it is being recorded.

    `columns`: as docs/recording.md names them ("The history in points"). `since`, `until`: s after the run's start;
    None is its start and its end. Memory does not grow with the run: a segment is read at a time, and of it what was
    asked for. A file that is damaged is left out, and put down in `lost` with the reason; without `lost` it
    raises Damaged. Raises NotARun and NewerRun, and ValueError where there is no such stretch of time.
    """
    stretch = [s for s in (since, until) if s is not None]
    if points < 1 or not all(map(math.isfinite, stretch)) or stretch != sorted(stretch):
        raise ValueError(f"no points can be made: {points} from {since} to {until}")
    folder = opening.given(Path(folder))
    story = read(folder)
    drawing = importlib.import_module("gputune.recording.drawing")
    with Folder(folder) as opened:
        found: Series = drawing.drawn(opened, story, list(columns), drawing.TimeWindow(points, since, until), lost)
        return found


def columns(folder: str | Path) -> dict[str, str]:
    """Return the columns of `samples` that the run in `folder` has so far, with the unit that `series` gives them.

    Raises NotARun and NewerRun. Of a run whose columns cannot be read there are none.
    """
    folder = opening.given(Path(folder))
    offset(read(folder))
    drawing = importlib.import_module("gputune.recording.drawing")
    with Folder(folder) as opened:
        found: dict[str, str] = drawing.declared_in(opened)
        return found
