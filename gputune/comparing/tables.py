"""Settings, ledger and findings of two sides, next to each other."""

import math
from collections.abc import Iterable, Sequence
from statistics import fmean, variance

import msgspec

from gputune.comparing.facts import code
from gputune.comparing.interval import FLOOR
from gputune.comparing.sides import Side
from gputune.comparing.student import half_width
from gputune.comparing.subject import Subject
from gputune.core.hygiene import clean
from gputune.verdict.document import LoaderRow

NAMED = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "batch_size")
LONGEST = 60  # characters of a value


class SettingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: of a training loader, counted from 1 by its batches; or the words that the other command has not."""

    what: str
    a: str
    b: str


class LedgerShareRow(msgspec.Struct, frozen=True, kw_only=True):
    """A word of the ledger: its share of wall time, mean over a side's runs, and the difference with its interval."""

    span: str
    a: float
    b: float
    difference: float
    low: float
    high: float


class CauseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A finding: in how many runs of a side it is, and the gain that these predict (mean of `likely`); null in none."""

    id: str
    a_runs: int
    b_runs: int
    a_gain: float | None
    b_gain: float | None


def settings(a: Side, b: Side) -> list[SettingRow]:
    """Return how both are set: words of the command that differ first, then loaders, most batches first."""
    rows = [("command", *_words(a, b)), *_commits(a, b)]
    for number in range(max(len(_loaders(each)) for each in (*a.subjects, *b.subjects))):
        for name in NAMED:
            first, second = (_joined(_setting(each, number, name) for each in side.subjects) for side in (a, b))
            rows.append((f"loader {number + 1} {name}", first, second))
    return [SettingRow(what=what, a=first, b=second) for what, first, second in rows]


def _commits(a: Side, b: Side) -> list[tuple[str, str, str]]:
    """Return the commits of both sides, where both tell any."""
    first, second = (_joined(filter(None, map(code, side.subjects))) for side in (a, b))
    return [("commit", first, second)] if first and second else []


def _loaders(one: Subject) -> list[LoaderRow]:
    return [row for row in one.verdict.loaders if row.training]


def _setting(one: Subject, number: int, name: str) -> str:
    loaders = _loaders(one)
    if number >= len(loaders):
        return "-"
    value = getattr(loaders[number], name)
    return "-" if value is None else str(value)


def _joined(values: Iterable[str]) -> str:
    return clean(" / ".join(dict.fromkeys(values)), LONGEST)


def _words(a: Side, b: Side) -> tuple[str, str]:
    """Return those words of the commands that the other side has not."""
    commands = [[word for each in side.subjects for word in each.verdict.command] for side in (a, b)]
    first, second = (
        " ".join(dict.fromkeys(word for word in mine if word not in other))
        for mine, other in (commands, reversed(commands))
    )
    return clean(first, LONGEST) or "-", clean(second, LONGEST) or "-"


def ledger(a: Side, b: Side) -> list[LedgerShareRow]:
    """Return where the time of both sides went, the largest share first."""
    spans = {row.span for each in (*a.subjects, *b.subjects) for row in each.verdict.ledger}
    rows = [_share(span, a, b) for span in spans]
    return sorted(rows, key=lambda row: (-max(row.a, row.b), row.span))


def _share(span: str, a: Side, b: Side) -> LedgerShareRow:
    first, second = (fmean(_of(each, span) for each in side.subjects) for side in (a, b))
    difference, half = second - first, _half(span, a, b)
    low, high = max(-1.0, difference - half), min(1.0, difference + half)  # of a whole no more can come or go
    return LedgerShareRow(span=span, a=first, b=second, difference=difference, low=low, high=high)


def _half(span: str, a: Side, b: Side) -> float:
    """Return half of the interval of a difference of shares.

    Of several runs a side Student's t tells it. Of one, what two runs differ by anyway: a part of a run that takes by
    h longer, beside the rest, has p (1 - p) h more of it.
    """
    shares = [[_of(each, span) for each in side.subjects] for side in (a, b)]
    freedom = sum(map(len, shares)) - 2
    if not freedom:
        return FLOOR * max(p * (1 - p) for side in shares for p in side)
    scatter = sum(variance(side) * (len(side) - 1) for side in shares if len(side) > 1)
    return half_width(math.sqrt(scatter / freedom), *map(len, shares))


def _of(one: Subject, span: str) -> float:
    return sum(row.share for row in one.verdict.ledger if row.span == span)


def findings(a: Side, b: Side) -> list[CauseRow]:
    """Return what was found on any side, the best predicted gain first."""
    ids = dict.fromkeys(row.id for each in (*a.subjects, *b.subjects) for row in each.verdict.findings)
    rows = [_cause(identity, a, b) for identity in ids]
    return sorted(rows, key=lambda row: (-max(row.a_gain or 0.0, row.b_gain or 0.0), row.id))


def _cause(identity: str, a: Side, b: Side) -> CauseRow:
    first, second = (_gains(identity, side.subjects) for side in (a, b))
    return CauseRow(
        id=identity,
        a_runs=len(first),
        b_runs=len(second),
        a_gain=fmean(first) if first else None,
        b_gain=fmean(second) if second else None,
    )


def _gains(identity: str, subjects: Sequence[Subject]) -> list[float]:
    """Return the gain that each run predicts that has the finding: of several in one run the best."""
    found = ([row.speedup.likely for row in each.verdict.findings if row.id == identity] for each in subjects)
    return [max(gains) for gains in found if gains]
