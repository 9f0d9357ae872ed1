"""What lies in a folder beside its own recording: ranks, proofs, trials, each in a row with its verdict."""

from pathlib import Path
from typing import NamedTuple

import msgspec

from gputune.core import opening
from gputune.core.errors import GputuneError
from gputune.launch.job import MARK, seats
from gputune.proving import proof
from gputune.report import heading, promises, summary
from gputune.report.kept import shown
from gputune.verdict.document import Verdict

PROOFS = "proof-*"
PROOF = "proof.json"
MOST = 64  # rows


class FolderMember(NamedTuple):
    """One member of a folder: what it is called, what was found in it, what that is worth, and its facts."""

    name: str
    said: str
    worth: str = ""
    facts: str = ""


def ranks(folder: Path) -> list[FolderMember]:
    """Return the watches of a job, each with the verdict on its own ranks; nothing where it is no such job."""
    if not (folder / MARK).is_file():
        return []
    return [of_run(Path(seat)) for seat in seats(str(folder))[:MOST]]


def of_run(folder: Path) -> FolderMember:
    """Return one recording as a row, or why it is none."""
    try:
        verdict = shown(folder)
    except (GputuneError, OSError) as error:
        return FolderMember(folder.name, f"no verdict: {error.args[0]}")
    return FolderMember(folder.name, *in_short(verdict), ", ".join(heading.facts(verdict)))


def in_short(verdict: Verdict) -> tuple[str, str]:
    """Return the first thing that a verdict says, and what it is worth."""
    said = summary.sentence(verdict)
    if said or not verdict.findings:
        return said or verdict.abstained, ""
    first = verdict.findings[0]
    return f"{first.id}: {first.says}", promises.worth(first)


def proofs(folder: Path) -> list[proof.Proof]:
    """Return the proofs that were made beside a run, the oldest first."""
    found = [proven(each) for each in sorted(folder.glob(PROOFS))[:MOST] if each.is_dir() and not each.is_symlink()]
    return [each for each in found if each is not None]


def proven(folder: Path) -> proof.Proof | None:
    """Return the proof in a folder, None where there is none that can be read."""
    try:
        return opening.document(folder / PROOF, proof.Proof)
    except (OSError, msgspec.DecodeError):
        return None
