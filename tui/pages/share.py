"""`gputune share`: several processes on one device, a row each, and how the device and their pace went."""

from collections.abc import Callable
from typing import TypeAlias

from gputune.feeds.rows import RunRow, ShareRow
from gputune.tui import words
from gputune.tui.drawing import bar
from gputune.tui.lines import EMPTY, Canvas, Line, Lines, Span, fit, line, paragraph, titled
from gputune.tui.pages._history import history_lines
from gputune.tui.pages.processes import task_key
from gputune.tui.views import TIME, PageKind, Scene

FIXED = 63  # cells of a row beside its log
STATES = {"running": "good", "trial": "good", "waiting": "dim", "paused": "warn", "unknown": "warn"}
KeyOf: TypeAlias = Callable[[ShareRow], str]


def no_key(_row: ShareRow) -> str:
    """Return what Enter opens on a process where nothing can be done to it."""
    return ""


def share_page(run: RunRow, look: Canvas, *, cursor: float | None = None, key: KeyOf = no_key) -> Lines:
    """Return the page of a shared device. `key`: what Enter opens on the row of a process."""
    lines = [EMPTY]
    if run.why:
        lines += paragraph(run.why, look.width, "bad")
    if run.packed:
        lines += [*paragraph(run.packed, look.width - 2, "value", " "), EMPTY]
    lines += share_lines(run, look, now=cursor is None, key=key)
    lines += [EMPTY, *history_lines(run.history, look, run.length, cursor)]
    return Lines((head(run, look, cursor),), lines)


def head(run: RunRow, look: Canvas, cursor: float | None = None) -> Line:
    """Return how many there are, and what those that run do together."""
    running = [row for row in run.procs if row.exit_code is None and row.state not in {"waiting", "unknown"}]
    ended = sum(row.exit_code is not None for row in run.procs)
    failed = sum(bool(row.exit_code) for row in run.procs)
    moment = words.clock(run.at) if cursor is None else f"at {words.clock(cursor)} of {words.clock(run.length)}"
    facts = [run.name, run.state, moment, f"{len(run.procs)} processes"]
    units = {row.unit for row in running if row.rate is not None}
    if len(units) == 1:
        together = sum(row.rate or 0.0 for row in running)
        facts += [f"{words.pace(together)} {units.pop() or 'samples/s'} in all"]
    facts += [f"{ended} ended"] if ended else []
    ill = f"{failed} failed " if failed else ""
    return line((fit(" " + " · ".join(facts), max(1, look.width - len(ill))), "title"), (ill, "bad"))


def share_lines(run: RunRow, look: Canvas, *, now: bool = True, key: KeyOf = no_key) -> list[Line]:
    """Return a line a process: how it goes, its part of the device, its log. `now`: the moment shown is the present."""
    units = sorted({row.unit for row in run.procs if row.unit})
    note = f"pace in {units[0]} " if len(units) == 1 else ""
    if not now:
        note = "as they are now: of them no earlier moment is kept "
    lines = [
        titled(" PROCESSES", look.width, note),
        line((fit("   #      PID STATE        PACE  DEVICE        MEMORY    HOST  LOG", look.width), "head")),
    ]
    for row in run.procs:
        lines += _row(row, look, key(row))
    return lines


def _row(row: ShareRow, look: Canvas, key: str) -> list[Line]:
    state, role = _state(row)
    named = " ".join(filter(None, (row.name, row.log)))
    spans: list[Span] = [
        (fit(str(row.index), 4, ">") + " ", "label"),
        (fit("–" if row.pid is None else str(row.pid), 8, ">") + " ", "dim"),
        (fit(state, 9) + " ", role),
        (fit(words.pace(row.rate), 7, ">") + "  ", ""),
        (bar(row.share, 8, plain=look.plain), "busy"),
        (words.percent(row.share).rjust(5) + " ", ""),
        (fit(words.size(row.memory), 6, ">") + " ", "memory"),
        (fit(words.size(row.host_memory), 7, ">") + "  ", ""),
        (fit(named, max(4, look.width - FIXED)), "dim"),
    ]
    lines = [line(*spans, key=key)]
    if row.why:
        lines.append(line((fit(f"{'':14}{row.why}", look.width), "bad" if row.exit_code else "dim")))
    return lines


def _state(row: ShareRow) -> tuple[str, str]:
    """Return in a word how a process is, and the role of that word."""
    if row.exit_code is None:
        return row.state, STATES.get(row.state, "")
    if row.exit_code < 0:
        return words.ending(row.exit_code), "bad"
    return f"ended {row.exit_code}", "bad" if row.exit_code else "dim"


def _draw(scene: Scene) -> Lines:
    assert scene.run is not None  # noqa: S101 - `of` says so
    return share_page(scene.run, scene.look, cursor=scene.cursor, key=_opens(scene))


def _opens(scene: Scene) -> KeyOf:
    """Return what Enter opens on a process of a shared device."""
    if not scene.signals or scene.node is None:
        return no_key
    keys = {task.pid: task_key(scene.node, task) for task in scene.node.tasks}
    return lambda row: keys.get(row.pid or 0, "")


PAGE = PageKind(_draw, of="run", keys=(TIME,), timed=True, place=5)
