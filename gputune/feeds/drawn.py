"""A run that has ended, as a screen shows it: its history and its last moments, from columns, without a replay."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from gputune.core.pace import SAMPLES, STEPS
from gputune.core.sample import Json, Note, Reading
from gputune.feeds.rows import POINTS, History
from gputune.recording import series
from gputune.recording.overview import ColumnEnvelope, Series
from gputune.recording.tail import tail
from gputune.verdict.document import Verdict

BEAT = "cpu.busy"  # read once a second wherever a recorder is at work
WAIT, READY, MADE = "batches.wait/s", "batches.ready", "batches/s"
COUNTED, STEPPED = "batches.samples/s", "steps/s[optimizer]"
Points = Sequence[float | None]


def history(folder: Path, length: float, trainers: int, lost: dict[str, str]) -> History:
    """Return how a run went that has lasted `length` s (0: that is not known). What is damaged is in `lost`."""
    asked = ("gpu.busy", BEAT, WAIT, READY, MADE, COUNTED, STEPPED)
    found = series(folder, asked, min(POINTS, int(length / 1.0)) or POINTS, lost=lost)  # s of a point
    none: Points = (None,) * len(found.times)
    lines: Mapping[str, Points] = {name: line.mean for name, line in found.columns.items()}
    counted = any(lines.get(COUNTED, ()))
    steps = lines.get(STEPPED, none)
    pace = lines.get(COUNTED if counted else MADE, none)
    if not counted:
        pace = [step or made for step, made in zip(steps, pace, strict=True)]
    known = _known(lines.get(MADE, none), steps)
    waits = [min(1.0, wait / trainers) if wait is not None else None for wait in lines.get(WAIT, none)]
    return History(
        step=found.step,
        unit=SAMPLES if counted else STEPS,
        busy=tuple(_together([line for name, line in found.columns.items() if name.startswith("gpu.busy")], none)),
        wait=tuple((wait or 0.0) if there else None for wait, there in zip(waits, known, strict=True)),
        rate=tuple((rate or 0.0) if there else None for rate, there in zip(pace, known, strict=True)),
        queue=tuple(lines.get(READY, none)),
        gaps=tuple(_gaps(found, lines.get(BEAT, none))),
    )


def ending(folder: Path, story: Mapping[str, Json], lost: dict[str, str]) -> Iterator[list[Reading]]:
    """Yield what is known of the machine, then its last readings."""
    said = story.get("machine")
    yield [Note(-1, fields) for fields in said if isinstance(fields, dict)] if isinstance(said, list) else []
    for tick in tail(folder, 120, lost):  # s that are read of the end: a constant is read every half a minute
        yield [*tick]


def trainers(verdict: Verdict | None) -> int:
    """Return how many processes trained, at least one."""
    known = verdict.processes if verdict is not None else []
    return max(1, sum(bool(process.batches or process.optimizer_steps) for process in known))


def _known(made: Points, steps: Points) -> list[bool]:
    """Return of each point whether the training is known in it: neither before it, nor while nothing was read."""
    trains = [bool(a) or bool(b) for a, b in zip(made, steps, strict=True)]
    first = trains.index(True) if True in trains else len(trains)
    read = (a is not None or b is not None for a, b in zip(made, steps, strict=True))
    return [k >= first and there for k, there in enumerate(read)]


def _together(lines: Sequence[ColumnEnvelope], none: Points) -> Iterator[float | None]:
    """Yield the mean of all devices that were read in each point."""
    for point in range(len(none)):
        read = [value for line in lines if (value := line.mean[point]) is not None]
        yield sum(read) / len(read) if read else None


def _gaps(found: Series, beat: Points) -> Iterator[tuple[float, float]]:
    """Yield when nothing was read between two readings: from when on, and for how long, s."""
    read = [time for time, value in zip(found.times, beat, strict=True) if value is not None]
    for before, after in pairwise(read):
        if after - before > 1.5 * found.step:
            yield before + found.step, after - before - found.step
