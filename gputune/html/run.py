"""One run as the page shows it: sentences of the terminal's report and of `findings.json`, whole."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from gputune.core import plugins
from gputune.core.sample import Json
from gputune.html import about, changes, engine, ledgers
from gputune.report import attached, following, heading, notes, promises, summary
from gputune.report.ranks import rank_rows
from gputune.report.tuned import sentence as tuned
from gputune.verdict.advised import ROOM, documentation
from gputune.verdict.document import FindingRow, ProcessRow, Verdict

MOST = 32  # rows of a kind: no run has more findings, and the document has all the others


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFinding:
    """A finding with all that stands beside it. `change` is what is to be set, where no diff shows it."""

    row: FindingRow
    worth: str
    results: str
    change: str
    diff: changes.ChangeDiff
    evidence: Mapping[str, float]
    explained: str


# What may stand beside a verdict, and does not of every run.
BESIDE: Mapping[str, object] = {
    "what": "run", "troubles": (), "seats": (), "proofs": (), "packed": None, "plots": None, "no_plots": ""
}  # fmt: skip


def page(
    folder: Path, typed: str, story: Mapping[str, Json], verdict: Verdict, beside: Mapping[str, object] = BESIDE
) -> bytes:
    """Return the page of a run. `typed` is its folder as one types it, `beside` as BESIDE. Raises NoJinja."""
    return engine.render("run.html", {**BESIDE, **beside, **_context(folder, typed, story, verdict)})


def _context(folder: Path, typed: str, story: Mapping[str, Json], verdict: Verdict) -> dict[str, object]:
    said = summary.sentence(verdict)
    first = verdict.findings[0] if verdict.findings and not said else None
    return {
        "verdict": verdict,
        "command": heading.command(verdict),
        "full_command": shlex.join(verdict.command),
        "more": _more(verdict),
        "facts": heading.facts(verdict),
        "so_far": about.so_far(story, verdict.wall_s) if verdict.exit_code is None and not verdict.attached else "",
        "started": about.started(story),
        "first": first,
        "first_worth": promises.worth(first) if first else "",
        "said": said,
        "well": not first and summary.well(verdict) and bool(verdict.ledger),
        "ledger": ledgers.of_training(verdict),
        "device": ledgers.of_device(verdict),
        "findings": [told(row, folder, story) for row in verdict.findings[:MOST]],
        "perhaps": [told(row, folder, story) for row in verdict.perhaps[:MOST]],
        "loaders": verdict.loaders[:MOST],
        "unavailable": [(row.probe, row.why, row.fields[:MOST]) for row in verdict.unavailable[:MOST]],
        "notes": [*([tuned(verdict)] if tuned(verdict) else []), *notes.notes(verdict), *notes.own_part(verdict)],
        "commands": following.commands(verdict, typed, again=True),
        "next": attached.NEXT if verdict.attached is not None and not verdict.findings else "",
        "ranks": [line.strip() for line in rank_rows(verdict.processes, 10_000)],  # columns: a page wraps by itself
        "processes": shown(verdict.processes),
        "hosts": any(process.host for process in verdict.processes),
        "about": about.rows(story),
    }


def told(row: FindingRow, folder: Path, story: Mapping[str, Json]) -> ShownFinding:
    """Return a finding with its change."""
    return ShownFinding(
        row=row,
        worth=promises.worth(row) + promises.alternative(row),
        results=promises.results(row),
        change=", ".join(f"{name}={value}" for name, value in row.change.items()),
        diff=changes.of(row, folder, story),
        evidence=dict(islice(row.evidence.items(), 64)),  # numbers of one finding: no advisor has more
        explained=_explained(row.id),
    )


def _more(verdict: Verdict) -> dict[str, int]:
    """Return how many rows of a kind are left out."""
    many = {"findings": len(verdict.findings), "processes": len(verdict.processes), "loaders": len(verdict.loaders)}
    return {name: max(0, number - MOST) for name, number in many.items()}


def _explained(identity: str) -> str:
    """Return what `gputune explain` says of it; "" of an advisor that this gputune does not have."""
    name = identity.replace("-", "_")
    return documentation(name) if name in plugins.names(ROOM) else ""


def shown(processes: list[ProcessRow]) -> list[ProcessRow]:
    """Return the training processes by rank, as many as a page takes; nothing of a training that is alone."""
    if len(processes) < 2:
        return []
    return sorted(processes, key=lambda p: (p.rank is None, p.rank or 0, p.pid))[:MOST]
