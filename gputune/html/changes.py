"""What a finding asks for as a diff of the script, where that can be made: a loader's settings, the script at hand."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from gputune.core import opening
from gputune.core.errors import GputuneError
from gputune.core.finding import TOGETHER, WITHOUT_EDIT
from gputune.core.hygiene import mask
from gputune.core.sample import Json
from gputune.core.units import NS
from gputune.sweep import patch
from gputune.verdict.document import FindingRow


class ChangeDiff(NamedTuple):
    """A change: lines of a diff, or why there is none (empty where nobody would expect one)."""

    diff: tuple[str, ...] = ()
    why: str = ""


def of(finding: FindingRow, folder: Path, story: Mapping[str, Json]) -> ChangeDiff:
    """Return the change of a loader's call that a finding of this run asks for."""
    settings = {name: value for name, value in finding.change.items() if name in WITHOUT_EDIT}
    file = next(_files(story, finding.where), "")
    if not settings or not file or finding.change.keys() & TOGETHER:
        return ChangeDiff()
    if opening.whose(folder):  # what it names of this machine's files is none of ours
        return ChangeDiff()
    line = finding.where.rpartition(":")[2]
    try:
        if Path(file).stat().st_mtime > _ended(story):
            return ChangeDiff(why="the script has changed since this run")
        made = patch.change(
            Path(file),
            int(line) if line.isdecimal() else 0,
            dict(settings),
            no_workers=settings.get("num_workers") == 0,
        )
        return ChangeDiff(mask(made.diff.splitlines()))  # what stands beside the call may be a login
    except FileNotFoundError:
        return ChangeDiff(why="the script is not on this machine")
    except (GputuneError, OSError, ValueError) as error:
        return ChangeDiff(
            why=str(error.args[0]) if isinstance(error, GputuneError) else f"{type(error).__name__}: {error}"
        )


def _files(story: Mapping[str, Json], where: str) -> Iterator[str]:
    """Yield the files of the loaders that were built at a place."""
    processes = story.get("processes")
    for process in processes if isinstance(processes, list) else ():
        notes = process.get("notes") if isinstance(process, dict) else None
        for note in notes if isinstance(notes, list) else ():
            if isinstance(note, dict) and note.get("n") == "loader" and note.get("where") == where:
                yield str(note.get("file") or "")


def _ended(story: Mapping[str, Json]) -> float:
    """Return when a run ended, in s of Unix time; now, while it goes on."""
    ended, offset = story.get("ended"), story.get("unix_minus_monotonic_ns")
    if isinstance(ended, int) and isinstance(offset, int):
        return (ended + offset) / NS
    return datetime.now(timezone.utc).timestamp()
