"""A recorded run against others that were made after a change: the interval holds what lies between runs.

Nobody but the recordings tells whether the change was made. Where the loader is set as before, nothing is proved.
"""

import math
from collections.abc import Mapping
from pathlib import Path

from gputune.comparing.conditions import REMEDIES, Differs, conditions
from gputune.comparing.interval import FLOOR, Between, between
from gputune.comparing.sides import Side, side
from gputune.comparing.student import runs_for
from gputune.comparing.subject import Subject
from gputune.comparing.tables import NAMED
from gputune.core.errors import GputuneError
from gputune.core.finding import Finding
from gputune.proving.asked import ReplayedRun
from gputune.proving.comparing import Proven, state
from gputune.proving.proof import AGAINST, Proof, ProofTrial, proof
from gputune.verdict.document import LoaderRow

BEFORE, AFTER = "before", "after"
THE_CHANGE = frozenset({"script"})  # what a change of the script may change by itself


class NotComparable(GputuneError):  # noqa: N818 - named for what happened
    """Something else than the change makes the two differ."""

    def __init__(self, rows: list[Differs]) -> None:
        said = ", ".join(f"{row.what} ({row.a} against {row.b})" for row in rows)
        super().__init__(
            f"the two runs cannot be compared: they differ in {said}",
            hint="; ".join(REMEDIES[row.what] for row in rows),
        )


def against(what: ReplayedRun, other: str, finding: Finding | None) -> Proof:
    """Compare a run with another one, or several, made after the change; `other` is what `gputune compare` takes.

    How fast each was is what `compare` says of it. Raises NotComparable, and GputuneError where one has no pace.
    """
    before, after = side(str(what.folder)), side(other)
    forbidding = [row for row in conditions(before, after) if row.forbids and row.what not in THE_CHANGE]
    if forbidding:
        raise NotComparable(forbidding)
    found = between(before.rates, after.rates)
    notes = [*before.notes, *after.notes, *(f"left out: {why}" for why in after.left_out), _basis(found)]
    predicted = finding.speedup if finding else None
    word = state(predicted, found.ratio)
    if finding is not None:
        unmade, said = _made(finding, before.subjects[0], after)
        word, notes = Proven.NOT_MADE if unmade else word, [*said, *notes]
    return proof(
        AGAINST,
        finding,
        predicted,
        found.ratio,
        word,
        says=f"{finding.id if finding else what.folder.name} against {Path(other).name or other}",
        trials=[_row(name, each) for name, one in ((BEFORE, before), (AFTER, after)) for each in one.subjects],
        notes=notes,
        runs_needed=runs_for(found.spread, math.log(found.ratio.likely)) if word is Proven.UNDECIDED else None,
    )


def _row(variant: str, one: Subject) -> ProofTrial:
    """Return one run as a trial: as fast as its verdict says it was."""
    return ProofTrial(
        variant=variant,
        rate=one.rate.value if one.rate else 0.0,
        unit=one.unit,
        batches=one.verdict.batches,
        seconds=one.verdict.loop_s,
        exit_code=one.verdict.exit_code,
        folder=str(one.kept.place),
        log="",
    )


def _basis(found: Between) -> str:
    """Say where the interval comes from."""
    if found.basis == "floor":
        return f"one run a side: two runs of one training differ by up to {FLOOR:.0%}, and more on crowded CPUs"
    return f"runs of one side differ by {found.spread:.1%}" + ("" if found.in_turn else "; they were not run in turn")


def _made(finding: Finding, before: Subject, after: Side) -> tuple[bool, list[str]]:
    """Return whether a run was not changed as the finding proposes, as far as its loader's settings tell, and words.

    What is changed in the script itself shows in no setting: there it is only said where the finding is still found.
    """
    asked = {name: value for name, value in finding.change.items() if name in NAMED}
    old = _loader(before, finding.where, 0)
    if not asked or old is None:
        still = [each.kept.name for each in after.subjects if any(r.id == finding.id for r in each.verdict.findings)]
        return False, [f"`{finding.id}` is still found in {', '.join(still)}"] if still else []
    number = before.verdict.loaders.index(old)
    unmade, said = False, []
    for each in after.subjects:
        new = _loader(each, finding.where, number)
        kept = [name for name in asked if new is not None and getattr(new, name) == getattr(old, name)]
        if len(kept) == len(asked):
            unmade = True
            said += [f"the change was not made in {each.kept.name}: {_settings(old, kept)}, as before"]
        elif new is not None and any(getattr(new, name) != value for name, value in asked.items()):
            said += [f"{each.kept.name} has {_settings(new, list(asked))}, and the finding proposes {_words(asked)}"]
    return unmade, said


def _loader(one: Subject, where: str, number: int) -> LoaderRow | None:
    """Return the loader at a line, or, where the line has moved, the one of that number."""
    rows = one.verdict.loaders
    return next((row for row in rows if row.where == where), rows[number] if number < len(rows) else None)


def _settings(row: LoaderRow, names: list[str]) -> str:
    return _words({name: getattr(row, name) for name in names})


def _words(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in settings.items())
