"""A run folder by name, before anything heavy is imported: whether it is one, and what the screen calls it."""

from pathlib import Path

from gputune.launch.job import MARK, seats
from gputune.recording.about import NotARun, read

UNNAMED = "recording"  # a run on one machine does not tell which


def first_seat(folder: Path) -> Path:
    """Return the folder of the lowest rank of a job that several watches record, else the folder itself."""
    if not (folder / MARK).is_file():
        return folder
    taken = seats(str(folder))
    if not taken:
        raise NotARun(folder, "no rank has recorded anything")
    return Path(taken[0])


def recorded_on(folder: Path) -> str:
    """Return the machine that a run was recorded on, as far as it says. Raises NotARun or NewerRun."""
    return str(read(first_seat(folder)).get("host") or UNNAMED)


def identity(folder: Path, node: str) -> str:
    """Return the id that the run in a folder has on a node."""
    return f"{node}/{folder.resolve().name}"
