"""The list of runs as a person reads it: times as of here, bytes and shares in words."""

import time
from collections.abc import Sequence

from gputune.core.figures import duration, size
from gputune.report.words import clip, likely, number
from gputune.runs.one import ENDED
from gputune.runs.pruning import Pruned, Spared
from gputune.runs.rows import Row

HEAD = ("began", "run", "state", "wall", "samples/s", "finding", "label", "job", "disk")
RIGHT = frozenset({"wall", "samples/s", "disk"})
NAME, NUMBER = 48, 12  # characters


def table(found: Sequence[Row]) -> str:
    """Return a line for each run; what none of them has (labels, jobs) has no column."""
    lines = [dict(zip(HEAD, _cells(each), strict=True)) for each in found]
    columns = [name for name in HEAD if any(line[name] for line in lines)]
    widths = {name: max(len(name), *(len(line[name]) for line in lines)) for name in columns}
    whole = [dict(zip(HEAD, HEAD, strict=True)), *lines]
    return "\n".join(
        "  ".join(f"{line[n]:>{widths[n]}}" if n in RIGHT else f"{line[n]:{widths[n]}}" for n in columns).rstrip()
        for line in whole
    )


def _cells(one: Row) -> tuple[str, ...]:
    return (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(one.started or one.changed)),
        clip(one.name, NAME),
        f"status {one.exit_code}" if one.state == ENDED and one.exit_code else one.state,
        "-" if one.wall_s is None else duration(one.wall_s),
        "-" if one.samples_per_s is None else clip(number(one.samples_per_s), NUMBER),
        f"{one.finding} {likely(one.gain)}" if one.finding and one.gain else one.finding or clip(one.why, NAME) or "-",
        one.label,
        one.job,
        size(one.bytes),
    )


def total(found: Sequence[Row]) -> str:
    """Return how many runs there are and what they take."""
    return f"{_runs(len(found))}, {size(sum(each.bytes for each in found))}"


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def removed(what: Pruned) -> str:
    """Return what was removed."""
    return f"removed {_runs(len(what.removed))}, {size(what.bytes)}" if what.removed else "nothing was removed"


def stays(one: Spared) -> str:
    """Return why an old run stays."""
    return f"`{clip(one.name, NAME)}` stays: {one.why}"
