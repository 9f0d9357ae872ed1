"""The runs that lie in a folder: a run folder is one by what is in it, whatever it is called."""

from collections.abc import Iterator
from pathlib import Path

from gputune.core import opening
from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.launch import folders
from gputune.launch.job import MARK
from gputune.recording.folder import RUN


class NoRuns(BadUsage):
    """A folder without a run in it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(
            f"`{clean(str(folder))}` holds no run",
            hint="`gputune watch -- python train.py` makes one",
        )


def is_run(folder: Path) -> bool:
    """Return whether a folder, which is no link, is a run folder: of one run, or of a job of several watches.

    One that somebody else hides is none: beside others it keeps nobody from theirs.
    """
    if folder.is_symlink():
        return False
    return any(opening.is_there(folder / name) and not (folder / name).is_symlink() for name in (RUN, MARK))


def below(folder: Path) -> Iterator[Path]:
    """Yield the run folders in a folder, by name, and so by time. Raises GputuneError where it cannot be read."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        mistyped = BadUsage if isinstance(error, FileNotFoundError | NotADirectoryError) else GputuneError
        raise mistyped(
            f"`{clean(str(folder))}` cannot be listed: {error.strerror or error}",
            hint=f"`gputune watch` keeps its runs in `{folders.RUNS}`, in the folder that it is started in",
        ) from None
    yield from (entry for entry in entries if is_run(entry))


def listed(folder: Path | None) -> list[Path]:
    """Return the runs in a folder, by default in the current folder's `gputune-runs`; of a run folder that one.

    Raises NoRuns, and GputuneError as `below`.
    """
    place = folder or Path(folders.RUNS)
    found = [place] if is_run(place) else list(below(place))
    if not found:
        raise NoRuns(place)
    return found
