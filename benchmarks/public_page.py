"""The page about public scripts: one row each, and what the rows come to."""

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from public_run import FOREIGN

SHOWN = 2  # findings of a verdict in the table; all are in the JSON
WORTH = 1.05  # a gain that gputune speaks of
DISTURBED, AGAIN = " †", " ‡"


@dataclass
class Row:
    """What was found of one script."""

    name: str
    repository: str
    commit: str
    command: str
    missing: str = ""  # why it did not run
    findings: list[dict[str, object]] = field(default_factory=list)  # of the verdict: id, low, likely, high, kind
    abstained: str = ""
    output: str = ""  # how the watched run's differs; empty: not at all
    control: str = ""  # how two bare runs differ; empty: not at all
    fix: str = ""
    causes: list[str] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)  # one a round
    runs: list[dict[str, Any]] = field(default_factory=list)
    torch: str = ""
    day: str = ""  # of the runs: YYYY-MM-DD
    again: bool = False  # it had run before, and what was wrong then may have been mended by it

    def predicted(self) -> dict[str, object] | None:
        """Return the first finding that proposes the fix."""
        return next((f for f in self.findings if f["id"] in self.causes), None)

    def disturbed(self, *, watched: bool) -> bool:
        """Return whether others used the CPUs during the watched run, or during one that the gain is read off."""
        return any(run["foreign"] > FOREIGN for run in self.runs if (run["kind"] == "watched") == watched)

    def realised(self) -> float | None:
        """Return what the fix brought: the median of the rounds."""
        return statistics.median(self.gains) if self.gains else None


def times(value: object) -> str:
    """Return a ratio as people read it."""
    return f"×{value:.2f}"


def promise(finding: dict[str, object]) -> str:
    """Return what a finding promises."""
    if not finding["promised"]:
        return "no speed promised"
    if finding["at_least"]:
        return f"at least {times(finding['low'])}"
    return f"{times(finding['likely'])} ({finding['low']:.2f}–{finding['high']:.2f})"


def verdict(row: Row) -> str:
    """Return the top findings in words."""
    if row.abstained and not row.findings:
        return f"abstained: {row.abstained}"
    told = [
        ("perhaps " if finding["kind"] == "perhaps" else "") + f"`{finding['id']}` {promise(finding)}"
        for finding in row.findings[:SHOWN]
    ]
    return (
        ", ".join(told) + (f" and {len(row.findings) - SHOWN} more" if len(row.findings) > SHOWN else "")
        or "nothing found"
    )


def same(row: Row) -> str:
    """Return in words whether watching changed the output."""
    if not row.output:
        return "same"
    return "two bare runs differ too" if row.control else f"DIFFERS: {row.output}"


def line(row: Row) -> str:
    """Return a row of the markdown table."""
    finding, realised = row.predicted(), row.realised()
    predicted = promise(finding) if finding else ("silent" if row.fix else "–")
    brought = f"{times(realised)} ({', '.join(f'{gain:.2f}' for gain in row.gains)})" if realised else "–"
    brought += DISTURBED * (bool(realised) and row.disturbed(watched=False))
    at = "" if "==" in row.commit else f"/tree/{row.commit}"
    link = f"[{row.name}](https://github.com/{row.repository}{at})" + (f" {row.commit}" if not at else "")
    told = verdict(row) + DISTURBED * row.disturbed(watched=True) + AGAIN * row.again
    cells = [link, f"`{row.command}`", told, same(row), row.fix or "–", predicted, brought]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


HEAD = """# Public scripts

Made by `make public` (benchmarks/public.py) on {cores} cores without a GPU, torch {torch}, {days}. Scripts that others
have published, at a pinned commit and unmodified, on made-up data. *Output*: the watched run's lines and status beside
the bare run's, with times masked. *Realised*: how much faster the script's own loop, read off its output, got by the
fix, between two bare runs, each round in brackets; *predicted*: what gputune had promised for it (`silent`: no finding
of the fix's kind). One or two rounds on a shared machine: trust a tenth, not a hundredth. Every run, the words of
every finding and what the fix changes are in benchmarks/public/. †: others used the CPUs meanwhile. A row is what a
script showed at first sight (what was wrong in one may have been mended since, see CHANGELOG.md), or ‡: once more,
after that.

| script | command | verdict | output | fix | predicted | realised |
|---|---|---|---|---|---|---|
"""


def document(rows: Sequence[Row], untried: Sequence[str] = ()) -> str:
    """Return the page; `untried` are scripts of the table of which nothing is known yet."""
    here, elsewhere = [r for r in rows if not r.missing], [r for r in rows if r.missing]
    torch = ", ".join(sorted({row.torch for row in here})) or "–"
    days = ", ".join(sorted({row.day for row in here if row.day})) or "–"
    text = HEAD.format(cores=os.cpu_count(), torch=torch, days=days)
    text += "".join(line(row) for row in here) + "\n" + "".join(f"- {told}\n" for told in totals(here))
    if untried:
        text += f"\nNot run yet: {', '.join(untried)}.\n"
    if elsewhere:
        text += "\n## What did not run here\n\n| script | command | why |\n|---|---|---|\n"
        text += "".join(f"| {row.name} ({row.repository}) | `{row.command}` | {row.missing} |\n" for row in elsewhere)
    return text


def totals(rows: Sequence[Row]) -> list[str]:
    """Return what the rows come to."""
    quiet = [row for row in rows if not row.disturbed(watched=False) and not row.disturbed(watched=True)]
    tried = [row for row in quiet if row.gains]
    worth = [row for row in tried if (row.realised() or 1) >= WORTH]
    told = [row for row in tried if row.predicted()]
    restless = sum(bool(row.control) for row in rows)
    differ = sum(bool(row.output) and not row.control for row in rows)
    told_worth = sum(row in told for row in worth)
    return [
        f"{len(rows)} scripts ran. Of {len(rows) - restless} two bare runs print the same; watched, {differ} differ",
        f"{len(tried)} fixes were tried undisturbed; {len(worth)} brought 5 % or more, of which {told_worth} were told",
        f"of the {len(tried) - len(worth)} that brought less, {len(told) - told_worth} were told all the same",
    ]
