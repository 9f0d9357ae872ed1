"""The day's results: a document for programs, and a table for people, beside what the simulated card gave."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuday.check import NOT_RUN, VERDICTS, Check, read

SCHEMA_VERSION: Final = 1
SIMULATED: Final = "a SIMULATED card: these are figures of a simulator's cost model and of this host, of no GPU"
HEAD: Final = ("part", "check", "unit", "bar", "simulated card", "this card", "verdict", "remark")


class Unreadable(Exception):  # noqa: N818 - its text says it
    """A document is not one of these results, or of a version that is not known."""


def document(checks: Sequence[Check], about: Mapping[str, object], *, simulated: bool) -> dict[str, object]:
    """Return results.json: `about` says what it ran on."""
    what = {"what": SIMULATED} if simulated else {}
    rows = [check.row() for check in checks]
    return {"schema_version": SCHEMA_VERSION, "simulated": simulated, "about": {**what, **about}, "checks": rows}


def checks_of(found: Mapping[str, Any]) -> list[Check]:
    """Return the checks of a document. Raises Unreadable."""
    if found.get("schema_version") != SCHEMA_VERSION:
        raise Unreadable(f"its version is {found.get('schema_version')!r}, known is {SCHEMA_VERSION}")
    try:
        return [read(row) for row in found["checks"]]
    except (KeyError, TypeError, ValueError) as error:
        raise Unreadable(f"it is damaged: {error}") from None


def cell(value: float | str | None) -> str:
    """Return a value with as many digits as it deserves."""
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    if value and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.3g}"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def counted(checks: Sequence[Check]) -> str:
    """Return how many checks have which verdict, in words."""
    counts = {verdict: sum(check.verdict == verdict for check in checks) for verdict in VERDICTS}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count) or "no check"


def words(checks: Sequence[Check], about: Mapping[str, object], other: Sequence[Check], *, simulated: bool) -> str:
    """Return results.md: each check beside that of the simulated card (`other`, none where that is not kept)."""
    before = {(check.part, check.name): check for check in other}
    lines = [f"# A GPU day: {about.get('card', 'no card')}", ""]
    if simulated:
        lines += [f"**This was {SIMULATED}.**", ""]
    lines += [f"- {name}: {value}" for name, value in about.items()]
    lines += [
        "",
        f"{counted(checks)}. `told` is a figure that nothing is promised of; nothing `not run` is passed.",
        "",
    ]
    if not other:
        lines += ["There is no kept results.json of the simulated card to compare with.", ""]
    lines += [_line(HEAD), _line(["---"] * len(HEAD))]
    lines += [_line(_cells(check, before.get((check.part, check.name)))) for check in checks]
    known = {(check.part, check.name) for check in checks}
    lost = [f"{c.part}: {c.name}" for key, c in before.items() if key not in known and c.part in {k[0] for k in known}]
    if lost:
        lines += ["", "Checks of the simulated card that this card has none of: " + "; ".join(lost) + "."]
    return "\n".join(lines) + "\n"


def _cells(check: Check, simulated: Check | None) -> list[str]:
    bar = "" if check.bar is None else f"≤ {cell(check.bar)}"
    there = "" if simulated is None else NOT_RUN if simulated.value is None else cell(simulated.value)
    unit = check.unit or (simulated.unit if simulated else "")
    return [check.part, check.name, unit, bar, there, cell(check.value), check.verdict, check.note]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in cells) + " |"
