"""Several processes on one card in a table: a row each, and the verdict on all of them together."""

import os
from pathlib import PurePath
from textwrap import wrap

from gputune.core.figures import duration, size
from gputune.core.hygiene import SENTENCE, clean
from gputune.report.words import aligned, clip, number, percent
from gputune.verdict.packed import SILENT, Packed, ProcRow

MISSING = "-"
HEAD = ("#", "status", "time", "device mem", "host mem", "device", "pace", "log")
RIGHT = frozenset({0, 2, 3, 4, 5, 6})  # columns of numbers


def render(packed: Packed, *, width: int = 80, silent: float = 0.0) -> str:
    """Return the table and the verdict, in lines of at most `width` columns, without a newline at its end.

    `silent`: s since it was written.
    """
    width = max(60, width)  # columns: below it no row can be set
    rows = [HEAD, *table(packed)]
    lines = [clip(line, width) for line in aligned(rows, RIGHT)]
    lines += [clip(text, width) for text in _logs(packed)]
    lines += [_state(silent)] if packed.running else []
    if packed.verdict:
        lines += wrap(clean(packed.verdict, 2 * SENTENCE), width)
    return "\n".join(lines)


def table(packed: Packed) -> list[tuple[str, ...]]:
    """Return a row of cells for each process, as HEAD names them."""
    return [_row(row, packed.unit) for row in packed.procs]


def sentences(packed: Packed, *, silent: float = 0.0) -> list[str]:
    """Return what is said of all: where their logs are, whether they run, and the verdict. `silent` as above."""
    return [
        *_logs(packed),
        *([_state(silent)] if packed.running else []),
        *([packed.verdict] if packed.verdict else []),
    ]


def _logs(packed: Packed) -> list[str]:
    """Return where the logs are."""
    return [f"logs in {clean(_near(str(PurePath(packed.procs[0].log).parent)), SENTENCE)}/"] if packed.procs else []


def _state(silent: float) -> str:
    """Return how those are whose end is not known."""
    if silent < SILENT:
        return "these had not ended when this was written"
    return f"nothing was heard of their launcher for {duration(silent)}: it is gone, or stopped"


def _row(row: ProcRow, unit: str) -> tuple[str, ...]:
    rate = MISSING if row.samples_per_s is None else f"{number(row.samples_per_s)}{_short(row.unit or unit)}"
    return (
        clean(row.name, 24) if row.name else str(row.index),
        _status(row),
        MISSING if row.wall_s is None else duration(row.wall_s),
        MISSING if row.device_memory is None else size(row.device_memory),
        MISSING if row.host_memory is None else size(row.host_memory),
        MISSING if row.device_share is None else percent(row.device_share),
        rate,
        clean(PurePath(row.log).name, SENTENCE),
    )


def _status(row: ProcRow) -> str:
    if row.exit_code is None:
        return "not started" if row.state == "waiting" else row.state
    what = "ok" if row.exit_code == 0 else str(row.exit_code)
    again = f", start {row.attempts}" if row.attempts > 1 else ""
    return f"{what}{again}{f' ({clean(row.why, 40)})' if row.why else ''}"


def _short(unit: str) -> str:
    return {"samples/s": "/s", "batches/s": " batches/s", "steps/s": " steps/s"}.get(unit, "")


def _near(path: str) -> str:
    """Return a path as the user would type it."""
    try:
        short = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    return path if short.startswith("..") or len(short) > len(path) else short
