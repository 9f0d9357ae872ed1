"""What two sides come to: the document of `gputune compare --json`. docs/compare.md describes it.

Fields are only ever added within one `schema_version`. Ratios are `b` over `a`; null where nothing was measured.
"""

import math
from collections.abc import Sequence

import msgspec

from gputune.comparing.conditions import REMEDIES, Differs, conditions
from gputune.comparing.gate import GateResult, gate
from gputune.comparing.interval import Between, between
from gputune.comparing.sides import Side
from gputune.comparing.student import MOST_RUNS, runs_for
from gputune.comparing.subject import Subject
from gputune.comparing.tables import CauseRow, LedgerShareRow, SettingRow, findings, ledger, settings
from gputune.core.hygiene import clean
from gputune.verdict.document import SpeedupRow, alike

FASTER, SLOWER, UNSURE, NOT_COMPARABLE = "faster", "slower", "unsure", "not-comparable"
ABSOLUTE = "unit"  # whatever anybody says, samples are no batches


class ComparedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `rate` is in the comparison's unit; `state` as `gputune runs` has it; `started` s of Unix time."""

    name: str
    folder: str
    label: str
    state: str
    exit_code: int | None
    started: float | None
    wall_s: float
    batches: int
    rate: float
    unit: str
    rate_error: float | None


class SideRow(msgspec.Struct, frozen=True, kw_only=True):
    """One side: what was typed, its runs, their geometric mean, and what is to be known beside it."""

    given: str
    rate: float
    runs: list[ComparedRun]
    notes: list[str]
    left_out: list[str]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The document. `state` is faster, slower, unsure (none of both is sure) or not-comparable.

    `basis` says where the interval comes from: `pairs` of neighbours of which each side has one, all `runs`, or the
    `floor` of one run a side; "" without a ratio. `spread` is the relative standard deviation between runs, so measured
    or assumed. `runs_needed` is how many a side would settle what is unsure.
    """

    schema_version: int = 1
    state: str
    unit: str
    ratio: SpeedupRow | None
    basis: str
    spread: float | None
    in_turn: bool
    runs_needed: int | None
    a: SideRow
    b: SideRow
    differs: list[Differs]
    remedies: list[str]
    settings: list[SettingRow]
    ledger: list[LedgerShareRow]
    findings: list[CauseRow]
    gate: GateResult | None


def compare(a: Side, b: Side, *, limit: float | None = None, anyway: bool = False) -> Comparison:
    """Return what both sides come to. `limit` is that of `--fail-if-slower`; `anyway` compares what differs as well."""
    rows = conditions(a, b)
    forbidding = [row.what for row in rows if row.forbids and (not anyway or row.what == ABSOLUTE)]
    found = None if ABSOLUTE in forbidding else between(a.rates, b.rates)
    state = _state(found, forbidding)
    ratio = None if found is None else found.ratio
    return Comparison(
        state=state,
        unit=a.subjects[0].unit if ABSOLUTE not in forbidding else "",
        ratio=alike(SpeedupRow, ratio) if ratio else None,
        basis=found.basis if found else "",
        spread=found.spread if found else None,
        in_turn=found is not None and found.in_turn,
        runs_needed=_needed(found) if found and state == UNSURE else None,
        a=_side(a),
        b=_side(b, _on_both(a, b)),
        differs=rows,
        remedies=_remedies(found, forbidding) if state == NOT_COMPARABLE else [],
        settings=settings(a, b),
        ledger=ledger(a, b),
        findings=findings(a, b),
        gate=None if limit is None else gate(limit, None if state == NOT_COMPARABLE else found),
    )


def _state(found: Between | None, forbidding: list[str]) -> str:
    if found is None or forbidding or found.says_nothing:
        return NOT_COMPARABLE
    if found.ratio.low > 1:
        return FASTER
    return SLOWER if found.ratio.high < 1 else UNSURE


def _needed(found: Between) -> int | None:
    return runs_for(found.spread, math.log(found.ratio.likely))


def _remedies(found: Between | None, forbidding: list[str]) -> list[str]:
    said = [REMEDIES[what] for what in forbidding]
    if found is not None and found.says_nothing:
        said.append(_wide(found))
    return said


def _wide(found: Between) -> str:
    """Say what would make an interval narrower that is so wide that it says nothing."""
    if found.strangers:
        return "run them while nobody else uses the CPUs, or several of each in turn: A, B, A, B"
    if found.basis != "floor":
        return f"runs of one side differ by {found.spread:.0%}: make more of each, in turn, up to {MOST_RUNS}"
    return "let both run longer: their own pace was not steady for long enough"


def _on_both(a: Side, b: Side) -> list[str]:
    """Return which runs are held against themselves, which tells of no difference."""
    first = {each.kept.place.resolve() for each in a.subjects}
    return [
        f"{each.kept.name} is on both sides: it differs from itself in nothing"
        for each in b.subjects
        if each.kept.place.resolve() in first
    ]


def _side(side: Side, more: Sequence[str] = ()) -> SideRow:
    rates = side.rates
    return SideRow(
        given=clean(side.typed),
        rate=math.exp(math.fsum(rate.log for rate in rates) / len(rates)),
        runs=[_run(each) for each in side.subjects],
        notes=[clean(note) for note in (*side.notes, *more)],
        left_out=[clean(why) for why in side.left_out],
    )


def _run(one: Subject) -> ComparedRun:
    return alike(
        ComparedRun,
        one.verdict,
        name=clean(one.kept.name, 80),
        folder=clean(str(one.kept.place)),
        label=one.label,
        state=one.kept.state,
        started=one.kept.started,
        rate=one.rate.value if one.rate else 0.0,
        unit=one.unit,
    )
