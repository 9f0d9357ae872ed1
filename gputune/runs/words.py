"""The list of runs as a person reads it: times as of here, bytes and shares in words."""

import time
from collections.abc import Sequence

from gputune.core.figures import duration, size
from gputune.report.words import clip, number, promised
from gputune.runs.one import ENDED
from gputune.runs.pruning import Pruned, Spared
from gputune.runs.rows import Row

HEAD = ("began", "run", "state", "wall", "samples/s", "finding", "label", "job", "disk")
RIGHT = frozenset({"wall", "samples/s", "disk"})
CUT = frozenset({"finding", "label", "run"})  # texts of which the beginning says much
# What is cut, or left out, where a terminal is narrow, until the rest fits: a name is typed again, and tells the time.
SPARE = ("finding", "began", "disk", "job", "wall", "label", "state", "samples/s", "run")
NAME, NUMBER, SHORTEST, BETWEEN = 48, 12, 16, 2  # characters: of a name, a number, a text that is cut, and a gap


def table(found: Sequence[Row], width: int | None = None) -> str:
    """Return a line for each run; what none of them has (labels, jobs) has no column.

    In `width` columns (None: however many) texts are cut and columns left out, the least telling first.
    """
    lines = [dict(zip(HEAD, _cells(each), strict=True)) for each in found]
    columns = [name for name in HEAD if any(line[name] for line in lines)]
    widths = {name: max(len(name), *(len(line[name]) for line in lines)) for name in columns}
    if width is not None:
        _narrow(widths, width)
    whole = [dict(zip(HEAD, HEAD, strict=True)), *lines]
    return "\n".join("  ".join(_cell(line[n], n, widths[n]) for n in widths).rstrip() for line in whole)


def _narrow(widths: dict[str, int], width: int) -> None:
    """Make columns fit into `width`."""

    def excess() -> int:
        return sum(widths.values()) + BETWEEN * (len(widths) - 1) - width

    for name in SPARE:
        if name in widths and excess() > 0:
            if name in CUT:
                widths[name] = max(min(SHORTEST, widths[name]), widths[name] - excess())
            else:
                del widths[name]


def _cell(text: str, name: str, width: int) -> str:
    cut = _kept_gain(text, width) if name == "finding" else clip(text, width)
    return f"{cut:>{width}}" if name in RIGHT else f"{cut:{width}}"


def _kept_gain(text: str, width: int) -> str:
    """Return a finding cut to `width` columns: its gain tells more than the end of its name."""
    name, sign, gain = text.rpartition(" ×")
    return clip(name, width - len(sign + gain)) + sign + gain if sign else clip(text, width)


def _cells(one: Row) -> tuple[str, ...]:
    return (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(one.started or one.changed)),
        clip(one.name, NAME),
        f"status {one.exit_code}" if one.state == ENDED and one.exit_code else one.state,
        "-" if one.wall_s is None else duration(one.wall_s),
        "-" if one.samples_per_s is None else clip(number(one.samples_per_s), NUMBER),
        _found(one) or clip(one.why, NAME) or "-",
        one.label,
        one.job,
        size(one.bytes),
    )


def _found(one: Row) -> str:
    """Return the best finding and its likely gain; of a risk, which promises none, its name alone."""
    return f"{one.finding} {promised(one.gain or 0.0)}".strip()


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
