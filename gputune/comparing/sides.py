"""What was typed to the runs that it means: a run folder, a `findings.json`, a folder of several runs, or a label."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gputune.comparing.interval import Rate
from gputune.comparing.subject import Subject, subject
from gputune.core import opening
from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.launch import folders
from gputune.report.kept import unjudged
from gputune.runs.found import below, is_run
from gputune.runs.labels import label
from gputune.runs.one import GOES_ON, KILLED, kept


class NoSide(BadUsage):
    """What was typed names no run."""

    def __init__(self, typed: str) -> None:
        super().__init__(
            f"`{clean(typed)}` is no run, no `findings.json`, no folder of runs, and no label in `{folders.RUNS}`",
            hint="`gputune runs` lists the runs that there are, with their labels",
        )


class NothingTrained(GputuneError):  # noqa: N818 - named for what happened
    """No run of a side has a pace."""

    def __init__(self, side: str, why: Sequence[str]) -> None:
        super().__init__(
            f"`{clean(side)}` has no pace to be compared: {'; '.join(why)}",
            hint="`gputune report RUN` says what was seen of a run",
        )


@dataclass(frozen=True, slots=True)
class Side:
    """All runs of one side that have a pace. `left_out` says of the others why not."""

    typed: str
    subjects: tuple[Subject, ...]
    left_out: tuple[str, ...] = ()

    @property
    def rates(self) -> list[Rate]:
        """Return how fast its runs were."""
        return [each.rate for each in self.subjects if each.rate is not None]

    @property
    def notes(self) -> list[str]:
        """Return what is to be known of its runs beside their pace."""
        return [f"{each.kept.name} {why}" for each in self.subjects for why in _odd(each)]


def _odd(one: Subject) -> list[str]:
    """Return in what a run is not one that went its way to the end."""
    code, found = one.verdict.exit_code, []
    if one.kept.state == GOES_ON:
        found.append("still goes on: it counts as far as it has come")
    if one.kept.state == KILLED:
        found.append("has no end: its gputune was killed, or its machine went down")
    if one.kept.state != GOES_ON and unjudged(one.kept.place):
        found.append("has no verdict of its own: what was recorded was judged now, as far as it goes")
    if code:
        found.append(f"left with status {code}")
    if one.world > len(one.ranks):
        found.append(f"is a job of {one.world} ranks, of which {len(one.ranks)} were heard")
    if one.verdict.abstained:
        found.append(f"is short: {one.verdict.abstained}")
    return found


def side(typed: str) -> Side:
    """Return the runs that were typed. Raises NoSide, NothingTrained, and as reading a run does."""
    folder = opening.given(Path(typed))
    places = _places(typed, folder)
    several = len(places) > 1
    subjects, left_out = [], []
    for place in places:
        try:
            found = subject(kept(place))
        except GputuneError as error:
            if not several:
                raise
            left_out.append(str(error.args[0]))
            continue
        if found.rate is None:
            left_out.append(f"{found.kept.name}: {found.verdict.abstained or 'no training was seen'}")
        else:
            subjects.append(found)
    if not subjects:
        raise NothingTrained(typed, left_out)
    return Side(typed, tuple(subjects), tuple(left_out))


def _places(typed: str, folder: Path) -> list[Path]:
    if folder.is_file() or is_run(folder):
        return [folder]
    found = (list(below(folder)) if folder.is_dir() else []) or _labelled(typed)
    if not found:
        raise NoSide(typed)
    return found


def _labelled(text: str) -> list[Path]:
    """Return the runs of the current folder that are called so."""
    here = Path(folders.RUNS)
    return [folder for folder in below(here) if label(folder) == text] if here.is_dir() else []
