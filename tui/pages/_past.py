"""How a machine went: curves of each device, of its CPUs, memory, disks and network, on one axis of time."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gputune.feeds.rows import Curve, Past
from gputune.tui import words
from gputune.tui.drawing import CURSOR, Value, ceiling, plot, resample, spark
from gputune.tui.lines import EMPTY, Canvas, Line, Span, beside, fit, line, titled
from gputune.tui.pages._history import GAPS

NAME, AXIS, VALUE = 14, 9, 9  # cells beside a curve
TICKS, TICK = 4, 20  # stretches of the axis at the most, and cells of one at the least
SPANS = (("the last 5 minutes", 300, "%H:%M:%S"), ("the last 2 hours", 7200, "%H:%M"), ("the last day", 86400, "%H:%M"))
ROLES = {"main": "training", "worker": "workers", "other": "helpers"}


class FigureKind(NamedTuple):
    """How a figure is written: its name, its values in words, its colour, the top of its axis where none is told."""

    name: str
    told: Callable[[Value], str]
    role: str
    top: float | None = None
    device: bool = False


KINDS = {
    "busy": FigureKind("busy", words.percent, "busy", 1.0, device=True),
    "memory": FigureKind("memory", words.size, "memory", device=True),
    "power": FigureKind("power", words.watts, "warn", device=True),
    "temperature": FigureKind("temp", words.degrees, "wait", 100.0, device=True),
    "cpu": FigureKind("CPUs", words.cores, "cpu"),
    "cpu by role": FigureKind("CPUs", words.cores, "cpu"),
    "host memory": FigureKind("host memory", words.size, "memory"),
    "disk read": FigureKind("disk read", words.flow, "pace"),
    "disk written": FigureKind("disk written", words.flow, "pace"),
    "net in": FigureKind("network in", words.flow, "queue"),
    "net out": FigureKind("network out", words.flow, "queue"),
}
SMALL = frozenset({"busy", "cpu", "host memory"})


class CurveArea(NamedTuple):
    """The room of one curve in cells, the values that its whole axis has, and the cell that is looked at, if any."""

    width: int
    height: int
    points: int
    at: int | None
    plain: bool


def past_lines(
    past: Past | None, look: Canvas, *, span: int, cursor: float | None = None, whole: bool = False
) -> list[Line]:
    """Return the section. `cursor`: the Unix time at which values are read off; `whole`: on a small screen as well."""
    says, seconds, clock = SPANS[span]
    whole = whole or look.height >= 40  # lines from which on all curves are shown unasked
    keys = "<- -> read" if look.plain else "← → read"
    title = titled(f" HOW IT WENT · {says}", look.width, f"w longer  {'' if whole else 'h all  '}{keys} ")
    if past is None or not past.curves:
        return [title, line(("  nothing was read yet", "dim"))]
    left, right = _shown(past.curves, whole=whole)
    count = max(len(curve.values) for curve in past.curves)
    end = past.began + count * past.step
    # From 150 columns on devices and host stand side by side
    across = 2 if look.width >= 150 and left and right else 1
    width = max(8, (look.width - 2 * (across - 1)) // across - NAME - AXIS - VALUE - 4)
    at = None if cursor is None else min(width - 1, max(0, int((cursor - end + seconds) / seconds * width)))
    rows = max(len(left), len(right)) if across == 2 else len(left) + len(right)
    # About 26 lines of a node's page are none of its curves, and
    # a curve has 4 lines at the most
    height = min(4, max(1, (look.height - 26) // max(1, rows))) if whole else 1
    frame = CurveArea(width, height, round(seconds / past.step), at, look.plain)
    blocks = [[row for curve in curves for row in _curve(curve, frame)] for curves in (left, right)]
    axis = _axis(end - seconds, end, clock, frame)
    if across == 2:
        high = max(map(len, blocks))
        blocks = [[*block, *[EMPTY] * (high - len(block)), axis] for block in blocks]
        return [title, *beside(blocks[0], blocks[1], look.width // 2 - 1), *_gaps(past, look, clock)]
    return [title, *blocks[0], *blocks[1], axis, *_gaps(past, look, clock)]


def _shown(curves: Sequence[Curve], *, whole: bool) -> tuple[list[Curve], list[Curve]]:
    """Return the curves of devices and those of the host, in their order; of a small screen the first that matter."""
    order = list(KINDS)
    known = [curve for curve in curves if curve.what in KINDS and (whole or curve.what in SMALL)]
    known.sort(key=lambda c: (len(c.whom), c.whom, order.index(c.what)) if KINDS[c.what].device else (0, "", 0))
    devices = [curve for curve in known if KINDS[curve.what].device]
    host = [curve for curve in known if not KINDS[curve.what].device]
    host.sort(key=lambda curve: (order.index(curve.what), list(ROLES).index(curve.whom) if curve.whom in ROLES else 0))
    return devices if whole else devices[:4], host  # devices of which a small screen shows how busy they were


def _name(curve: Curve) -> str:
    kind = KINDS[curve.what]
    whom = ROLES.get(curve.whom, curve.whom)
    return f"{whom} {kind.name}".strip() if not kind.device else f"{whom:>2} {kind.name}"


def _curve(curve: Curve, frame: CurveArea) -> list[Line]:
    """Return one curve: its name, the ends of its axis, its values, and the latest or the one that is looked at."""
    kind = KINDS[curve.what]
    values: list[Value] = [*[None] * (frame.points - len(curve.values)), *curve.values]
    cells = resample(values, frame.width)
    top = curve.top or kind.top or ceiling(curve.values)
    # What is older than 3 points is no present value
    last = next((value for value in reversed(curve.values[-3:]) if value is not None), None)
    value = last if frame.at is None else cells[frame.at]
    rows = [spark(cells, frame.width, top=top, plain=frame.plain)]
    if frame.height > 1:
        rows = plot(values, frame.width, frame.height, top=top, plain=frame.plain)
    edge = "|" if frame.plain else "┤"
    found = []
    for number, row in enumerate(rows):
        first, lowest = number == 0, number == len(rows) - 1
        ends = kind.told(top) if first else kind.told(0.0) if lowest else ""
        spans: list[Span] = [
            (" " + fit(_name(curve) if first else "", NAME), "label"),
            (fit(ends, AXIS, ">") + edge, "dim"),
            *_cut(row, frame, kind.role),
            (fit(kind.told(value) if first else "", VALUE, ">"), "value"),
        ]
        found.append(line(*spans))
    return found


def _cut(row: str, frame: CurveArea, role: str) -> list[Span]:
    """Return a row of a curve, with the mark of the moment that is looked at."""
    if frame.at is None:
        return [(row, role)]
    mark = "|" if frame.plain else CURSOR
    return [(row[: frame.at], role), (mark, "cursor"), (row[frame.at + 1 :], role)]


def _axis(began: float, end: float, clock: str, frame: CurveArea) -> Line:
    """Return the axis of time, with the time of day at each tick."""
    mark = "'" if frame.plain else "╵"
    ticks = max(1, min(TICKS, frame.width // TICK))
    text = ""
    for tick in range(ticks):
        said = time.strftime(clock, time.localtime(began + (end - began) * tick / ticks))
        text = f"{text:<{frame.width * tick // ticks}}{mark}{said}"
    last = time.strftime(clock, time.localtime(end)) + mark
    text = f"{text:<{max(0, frame.width - len(last))}}{last}"
    return line((" " * (NAME + AXIS + 2) + text[: frame.width], "dim"))


def _gaps(past: Past, look: Canvas, clock: str) -> list[Line]:
    """Return when nothing could be read, the longest such times, in a line."""
    longest = sorted(sorted(past.gaps, key=lambda gap: -gap[1])[:GAPS])
    told = [f"{words.lasted(s)} at {time.strftime(clock, time.localtime(at))}" for at, s in longest]
    more = f" and {len(past.gaps) - GAPS} shorter ones" if len(past.gaps) > GAPS else ""
    said = f" nothing could be read for {', '.join(told)}{more}"
    return [line((fit(said, look.width), "warn"))] if told else []


def step_of(past: Past) -> float:
    """Return by how many s one key moves in a past."""
    return max(past.step, SPANS[past.span][1] / 60)  # keys from one end of the axis to the other
