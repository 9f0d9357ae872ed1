"""`gputune share`: several processes on one device, a row each."""

from collections.abc import Sequence

from gputune.scene import RunRow, ShareRow
from gputune.tui import words
from gputune.tui.drawing import bar
from gputune.tui.lines import EMPTY, Line, Lines, Look, Span, fit, line, titled


def share_page(run: RunRow, look: Look) -> Lines:
    """Return the page of a shared device."""
    together = sum(row.rate or 0.0 for row in run.procs)
    done = sum(row.exit_code is not None for row in run.procs)
    failed = sum(bool(row.exit_code) for row in run.procs)
    facts = [run.name, f"{len(run.procs)} processes", f"{words.pace(together)} samples/s together"]
    facts += [f"{done} ended"] if done else []
    ill = f"{failed} failed " if failed else ""
    head = line((fit(" " + " · ".join(facts), max(1, look.width - len(ill))), "title"), (ill, "bad"))
    return Lines((head,), [EMPTY, *share_lines(run.procs, look)])


def share_lines(rows: Sequence[ShareRow], look: Look) -> list[Line]:
    """Return a line a process: how it goes, its part of the device, its log."""
    lines = [
        titled(" PROCESSES", look.width),
        line((fit("   #      PID STATE         SMP/S  DEVICE             MEMORY  LOG", look.width), "head")),
    ]
    for row in rows:
        ended = row.exit_code is not None
        state = f"ended {row.exit_code}" if ended else row.state or "runs"
        role = "bad" if row.exit_code else "dim" if ended else "good"
        spans: list[Span] = [
            (fit(str(row.index), 4, ">") + " ", "label"),
            (fit("–" if row.pid is None else str(row.pid), 8, ">") + " ", "dim"),
            (fit(state, 11) + " ", role),
            (fit(words.pace(row.rate), 7, ">") + "  ", ""),
            (bar(row.share, 10, plain=look.plain), "busy"),
            (words.percent(row.share).rjust(5) + " ", ""),
            (fit(words.size(row.memory), 8, ">") + "  ", "memory"),
            (fit(row.log, max(4, look.width - 60)), "dim"),
        ]
        lines.append(line(*spans))
    return lines
