"""What a proof says: its document, and its words."""

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gputune.core.finding import Finding, Setting, Speedup
from gputune.core.hygiene import clean
from gputune.proving.comparing import Proven
from gputune.report.words import number
from gputune.verdict.document import SpeedupRow, alike, to_json

CEILING: Final = "ceiling"
AGAINST: Final = "against"
NAMES: Final = {
    Proven.HELD: "held",
    Proven.SHORT: "not held: it fell short",
    Proven.MORE: "held: it was more",
    Proven.UNDECIDED: "not held: the trials differ too much to tell it from no gain (more of them: `--pairs 6`)",
    Proven.MEASURED: "",
    Proven.NOT_MADE: "not held: the change was not made",
}
NOT_TOLD = "not held: two such runs differ by as much without any change"  # instead, where runs were only compared


class ProofTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One run: how it was run, samples/s (or what `unit` says) after its warm-up, and where its recording lies."""

    variant: str
    rate: float
    unit: str
    batches: int
    seconds: float
    exit_code: int | None
    folder: str
    log: str


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """The document. `realised` is a ratio of rates, with its spread; `predicted` is null where nothing was."""

    schema_version: int = 1
    kind: str  # change, against, ceiling, cache
    id: str | None
    where: str
    change: dict[str, Setting]
    predicted: SpeedupRow | None
    realised: SpeedupRow
    state: str
    held: bool
    says: str
    trials: list[ProofTrial]
    notes: list[str] = []  # what else is to be known of the runs that were compared, and of what was changed in them
    runs_needed: int | None = None  # a side, in turn, that would settle what is undecided; null where nobody knows


def proof(  # noqa: PLR0913 - one parameter a part of the document
    kind: str,
    finding: Finding | None,
    predicted: Speedup | None,
    realised: Speedup,
    state: Proven,
    *,
    says: str,
    trials: Sequence[ProofTrial],
    change: Mapping[str, Setting] | None = None,
    notes: Sequence[str] = (),
    runs_needed: int | None = None,
) -> Proof:
    """Return the document."""
    return Proof(
        kind=kind,
        id=finding.id if finding else None,
        where=finding.where if finding else "",
        change=dict(change or {}),
        predicted=alike(SpeedupRow, predicted) if predicted else None,
        realised=alike(SpeedupRow, realised),
        state=state.value,
        held=state.holds,
        says=says,
        trials=list(trials),
        notes=[clean(note) for note in notes],
        runs_needed=runs_needed,
    )


def words(proof: Proof) -> str:
    """Return the proof in lines: what was compared, how fast each was, what was promised and what came."""
    variants = list(dict.fromkeys(row.variant for row in proof.trials))
    width = max(map(len, variants), default=0)
    lines = [f"gputune prove: {clean(proof.says, 200)}"]
    for variant in variants:
        same = [row for row in proof.trials if row.variant == variant]
        rates = ", ".join(number(row.rate) for row in same)
        lines.append(f"  {variant:{width}}  {rates} {same[0].unit}")
    if proof.kind == CEILING:
        lines.append(f"at most {_gain(proof.realised)}{_possible(proof)}")
        return "\n".join(lines)
    lines += [f"  {note}" for note in proof.notes]
    predicted = f"predicted {_gain(proof.predicted)}, " if proof.predicted else ""
    word = _word(proof)
    lines.append(f"{predicted}realised {_gain(proof.realised)}{f': {word}' if word else ''}")
    return "\n".join(lines)


def _word(proof: Proof) -> str:
    state = Proven(proof.state)
    if proof.kind != AGAINST or state is not Proven.UNDECIDED:
        return NAMES[state]
    return f"{NOT_TOLD} ({_more(proof.runs_needed)})"


def _more(runs: int | None) -> str:
    """Say what would settle it."""
    return f"about {runs} runs of each, in turn, would settle it" if runs else "make several runs of each, in turn"


def _possible(proof: Proof) -> str:
    if proof.predicted is None:
        return ""
    able = "which is possible" if proof.held else "which is not possible"
    return f"; {proof.id} predicts {_gain(proof.predicted)}, {able}"


def _gain(row: SpeedupRow) -> str:
    if row.at_least:
        return f"at least ×{row.low:.2f}"
    return f"×{row.likely:.2f} ({row.low:.2f}–{row.high:.2f})"


def keep(proof: Proof) -> None:
    """Keep the document beside the trials it was made of, as `proof.json`, if it can be written."""
    folders = {Path(row.folder).parent for row in proof.trials if row.log}
    for folder in folders:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(OSError), os.fdopen(os.open(folder / "proof.json", flags, 0o600), "wb") as file:
            file.write(to_json(proof))
