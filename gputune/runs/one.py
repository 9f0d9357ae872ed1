"""A run as its folder tells it, without its records: how it stands, and its verdict."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gputune.core import opening
from gputune.core.errors import GputuneError
from gputune.core.sample import Json
from gputune.core.units import NS
from gputune.launch.job import MARK
from gputune.recording.about import NotARun, offset, read
from gputune.recording.folder import FINDINGS, LIVE, RUN
from gputune.report.kept import kept as kept_verdict
from gputune.report.kept import verdict_of
from gputune.runs.places import first_seat
from gputune.runs.whereabouts import fresh
from gputune.verdict import living
from gputune.verdict.document import Verdict

ENDED = "ended"
GOES_ON = "live"
KILLED = "killed"  # nobody wrote how it ended: gputune itself was killed, or the machine went down


@dataclass(frozen=True, slots=True)
class KeptRun:
    """One run. `about` is its run.json, empty for a `findings.json` that lies alone."""

    place: Path
    about: Mapping[str, Json]
    state: str

    @property
    def name(self) -> str:
        """Return what the run is called: its folder, or the file that was named."""
        return self.place.resolve().name or str(self.place)

    @property
    def started(self) -> float | None:
        """Return when it began, in s of Unix time; None where that is not told."""
        began = self.about.get("started")
        return (began + offset(self.about)) / NS if isinstance(began, int) else None

    def verdict(self) -> Verdict:
        """Return its verdict: as it is so far, as it was kept, or, without that, what its records come to.

        Raises as `verdict_of`.
        """
        return (self._so_far() if self.state == GOES_ON else None) or verdict_of(self.place)

    def told(self) -> Verdict | None:
        """Return its verdict if one lies there, of a run that was killed the last; None where it has to be judged.

        Raises NewerRun, DamagedVerdict and NoVerdict.
        """
        return kept_verdict(self.place) if self.state == ENDED else self._so_far() or kept_verdict(self.place)

    def _so_far(self) -> Verdict | None:
        try:
            return living.decoded(opening.read(self.place / LIVE)).whole
        except (OSError, msgspec.DecodeError):  # it has ended since, or is of another version
            return None


def kept(place: Path) -> KeptRun:
    """Return the run in a folder, or of a `findings.json`. Raises NotARun, NewerRun or NoVerdict."""
    if place.is_file():
        return KeptRun(place, _beside(place), ENDED)
    about = _about(place)
    return KeptRun(place, about, state(place, about))


def _about(folder: Path) -> dict[str, Json]:
    """Return run.json; of a job of several watches what its lowest rank tells of when and where it ran as well."""
    whole = read(folder) if (folder / RUN).exists() else {}
    if whole and not (folder / MARK).is_file():
        return whole
    try:
        return {**whole, **read(first_seat(folder))}
    except NotARun:
        if whole:
            return whole
        raise


def _beside(file: Path) -> dict[str, Json]:
    """Return the run.json beside a verdict that was named, as far as it can be read: the verdict stands without it."""
    try:
        return read(file.parent) if file.name == FINDINGS else {}
    except GputuneError:
        return {}


def state(folder: Path, about: Mapping[str, Json]) -> str:
    """Return how a run stands, by its folder: written a moment ago, told how it ended, or neither."""
    ended = about.get("exit_code") is not None or bool(about.get("attached") and about.get("ended"))
    if ended or (about.get("ranks") and about.get("finished")):  # of a job the end is told by its ranks
        return ENDED
    return GOES_ON if not about.get("finished") and fresh(folder) else KILLED
