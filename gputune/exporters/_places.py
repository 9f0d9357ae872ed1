"""Where the recordings of a run lie, and where an export of it goes."""

from pathlib import Path

from gputune import opening, replacing
from gputune.errors import GputuneError
from gputune.exporters import Wish
from gputune.launch import job
from gputune.recording.about import NotARun
from gputune.recording.folder import Folder


def seats(run: Path) -> list[Path]:
    """Return the folders of a run that hold recordings: its own, or one for each rank with a watch of its own."""
    if not (run / job.MARK).is_file():
        return [run]
    found = [Path(seat) for seat in job.seats(str(run))]
    if not found:
        raise NotARun(run, "no rank has recorded anything")
    return found


def keep(wish: Wish, name: str, data: bytes) -> Path:
    """Write a file where `--out` says, or by this name into the run's folder; return it. Raises GputuneError."""
    if wish.out is not None:
        why = replacing.put(str(wish.out), data)
        if why:
            raise GputuneError(why, hint="look at its rights, and at the disk that it is on")
        return wish.out
    try:
        with Folder(wish.run) as folder:
            folder.write(name, data)
    except OSError as error:
        owner = opening.whose(wish.run)
        says = f"`{wish.typed}` cannot be written{f', it is {owner}s' if owner else ''}: {error.strerror or error}"
        raise GputuneError(says, hint="name a place of your own with `--out`") from None
    return Path(wish.typed, name)
