"""The verdict that lies in a run folder, where it is the one that this gputune would give: no replay is needed then."""

import math
from pathlib import Path

import msgspec

from gputune import __version__
from gputune.core import opening
from gputune.core.errors import GputuneError
from gputune.recording.about import read
from gputune.recording.folder import FINDINGS
from gputune.verdict.document import RECORDER, SCHEMA_VERSION, Verdict, why_of

ROUNDING = 0.01  # by which the shares of a ledger may miss 1


def judged(folder: Path) -> Verdict | None:
    """Return the verdict that this version has given on a run that has ended; None where there is no such.

    None too where the recorder was lost, or ranks of a job were still at work: the recording tells more by now.
    """
    try:
        story = read(folder)
        found = opening.document(folder / FINDINGS, Verdict)
    except (OSError, GputuneError, msgspec.DecodeError):
        return None
    whole = story.get("finished") is True and not story.get("absent") and not why_of(RECORDER, found.unavailable)
    ours = (found.schema_version, found.gputune) == (SCHEMA_VERSION, __version__)
    return found if whole and ours and _adds_up(found) else None


def _adds_up(verdict: Verdict) -> bool:
    """Return whether its shares can be those of a run: the file may be anybody's."""
    shares = [row.share for row in verdict.ledger]
    return not shares or (min(shares) >= 0 and math.isclose(sum(shares), 1, abs_tol=ROUNDING))
