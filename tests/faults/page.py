"""Writes docs/reliability.md out of what was tried: no number in it was typed."""

import datetime as dt
import platform
import subprocess
from pathlib import Path

from tests.faults.ledger import Ledger, Told
from tests.faults.row import Row, names, row
from tests.faults.trying import ROOT

HEAD = """# Reliability: what is promised, and how often it was tried

`make faults` writes this page: each number in it was counted by the suite, none was typed. A row is a promise, and
cases that try to break it; a case is decided by its number, and `make faults ONLY=row CASE=n` tries it again.
`FAULTS=full make faults` tries all of a row's cases, and goes on where it was stopped. `make test` tries a fixed
share of each row. What was found lies in `tests/faults/corpus/`, and is tried in `make test` as well; what gputune
defends against, and what not, is [SECURITY.md](../SECURITY.md).

Last tried {date}, on {machine}.

| promise | tried by, beside what stood before | cases | failures | all so far, of | failures |
|---|---|---|---|---|---|
"""


def write(file: Path, place: Path) -> None:
    """Write the page of all rows out of what the folder of results knows."""
    file.write_text(_head() + "".join(_line(row(name), place) for name in names()) + _figures(place), encoding="utf-8")


def _head() -> str:
    date = dt.datetime.now(dt.timezone.utc).date().isoformat()
    revision = subprocess.run(
        ("git", "rev-parse", "--short", "HEAD"), cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    machine = f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}"
    return HEAD.format(date=date, machine=f"{machine}, revision {revision}" if revision else machine)


def _line(each: Row, place: Path) -> str:
    quick, full = (Ledger(place / kind).told(each.name) for kind in ("quick", "full"))
    beside = f" ({each.tests})" if each.tests else ""
    cells = [each.promise, f"`{each.file}`{beside}", _count(quick), _failures(quick)]
    cells += [f"{_count(full)}, of {each.full:,}" if full.count else f"–, of {each.full:,}", _failures(full)]
    return f"| {' | '.join(cells)} |\n"


def _count(told: Told) -> str:
    if told.not_here:
        return f"not here: {told.not_here}"
    return f"{told.count:,}" if told.count else "–"


def _failures(told: Told) -> str:
    return str(len(told.failed)) if told.count else "–"


def _figures(place: Path) -> str:
    """Return the lines of rows that measure something beside."""
    lines = []
    for each in map(row, names()):
        told = [Ledger(place / kind).told(each.name).figure for kind in ("quick", "full")]
        known = [figure for figure in told if figure is not None]
        if each.figure and known:
            lines.append(f"- `{each.name}`: {each.figure}: {max(known):.3g}\n")
    return "\nThe largest of what was measured beside:\n\n" + "".join(lines) if lines else ""
