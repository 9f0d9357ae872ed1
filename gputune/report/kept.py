"""The verdict that lies in a run folder, or in a `findings.json` of its own: the one place that reads it for others.

Whoever shows, compares, exports or hands out a verdict meets the same one here, and the same errors where it is of a
newer version or damaged. Parts of a newer one are not guessed at; a damaged one is judged anew where there are records.
"""

import contextlib
import math
from pathlib import Path

import msgspec

from gputune import __version__
from gputune.core import opening
from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.recording.about import Damaged, NewerRun, read
from gputune.recording.folder import FINDINGS
from gputune.verdict.document import RECORDER, SCHEMA_VERSION, Verdict, why_of


class NoVerdict(BadUsage):
    """A file that was named is no `findings.json`."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(
            f"`{file}` is no `findings.json`: {clean(why)}", hint="name a run folder, or its `findings.json`"
        )


class DamagedVerdict(Damaged):
    """The verdict in a run folder cannot be read; its records may still be whole."""

    def __init__(self, folder: Path, why: str) -> None:
        super().__init__(FINDINGS, why, hint=f"`gputune report {folder} --again` judges what was recorded")


class _Versioned(msgspec.Struct):
    schema_version: int
    gputune: str = ""


def kept(place: Path) -> Verdict | None:
    """Return the verdict that lies in a run folder, or is the file that was named; None where a folder has none.

    Raises NewerRun; DamagedVerdict of a folder, NoVerdict of a file.
    """
    of_file = place.is_file()
    try:
        return decoded(opening.read(place if of_file else place / FINDINGS), place)
    except FileNotFoundError:
        return None
    except OSError as error:
        why = error.strerror or str(error)
    except msgspec.DecodeError as error:
        why = str(error)
    raise (NoVerdict if of_file else DamagedVerdict)(place, why)


def decoded(document: bytes, place: Path) -> Verdict:
    """Return the verdict in a `findings.json` of `place`. Raises NewerRun, and DecodeError where it holds none."""
    try:
        said = msgspec.json.decode(document, type=_Versioned)
        if said.schema_version > SCHEMA_VERSION:
            raise NewerRun(place, said.schema_version, said.gputune or "that is newer")
        return msgspec.json.decode(document, type=Verdict)
    except RecursionError:
        raise msgspec.DecodeError("it is nested without end") from None


def ours(folder: Path) -> Verdict | None:
    """Return the verdict that this version has given on a run that has ended; None where there is no such.

    None too where the recorder was lost, or ranks of a job were still at work: the recording tells more by now.
    """
    try:
        story, found = read(folder), kept(folder)
    except GputuneError:
        return None
    if found is None or found.gputune != __version__:
        return None
    whole = story.get("finished") is True and not story.get("absent") and not why_of(RECORDER, found.unavailable)
    return found if whole and _adds_up(found) else None


def verdict_of(place: Path) -> Verdict:
    """Return the verdict that was kept, whoever gave it; where none was, or it is damaged, what the records come to.

    Raises NewerRun, NoVerdict of a file, and as `rejudge`.
    """
    try:
        found = kept(place)
    except DamagedVerdict:
        found = None
    return found or _judged(place)


def unjudged(place: Path) -> bool:
    """Return whether a run that is not under way has no verdict that could be read: `verdict_of` judges its records."""
    try:
        return kept(place) is None
    except DamagedVerdict:
        return True


def shown(folder: Path) -> Verdict:
    """Return this version's verdict; of a recording that it cannot judge what was kept, whoever gave that.

    Raises as `rejudge`.
    """
    found = ours(folder)
    if found is not None:
        return found
    try:
        return _judged(folder)
    except GputuneError:
        with contextlib.suppress(GputuneError):  # the first error says more
            found = kept(folder)
        if found is None:
            raise
        return found


def _judged(folder: Path) -> Verdict:
    from gputune.report.rejudging import rejudge  # noqa: PLC0415 - with all advisors; most runs have a verdict

    return rejudge(folder)


def _adds_up(verdict: Verdict) -> bool:
    """Return whether its shares can be those of a run: the file may be anybody's."""
    shares = [row.share for row in verdict.ledger]
    # 0.01: by which the shares of a ledger may miss 1
    return not shares or (min(shares) >= 0 and math.isclose(sum(shares), 1, abs_tol=0.01))
