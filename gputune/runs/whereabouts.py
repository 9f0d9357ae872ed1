"""Which runs go on here: the folders that recorders of this user hold open, and fresh ones in `gputune-runs`."""

import os
import time
from pathlib import Path

from gputune.core import opening
from gputune.host.procfs import children_of
from gputune.launch import folders
from gputune.launch.job import MARK, SEAT

RUN = "run.json"


def live_runs(here: Path = Path(), proc: Path = Path("/proc")) -> list[Path]:
    """Return the run folders of all runs that this user's `gputune watch` records now, the newest last.

    Of a job with a watch a rank it is the job's folder. What is not this user's is left out, also where it could be
    read, as by root: names of rings are anybody's to choose, and a run names processes.
    """
    found = {_whole(folder) for pid in folders.supervisors() for folder in _held(pid, proc)}
    runs = here / folders.RUNS
    if runs.is_dir():
        found |= {_whole(folder.resolve()) for folder in runs.iterdir() if opening.is_mine(folder) and fresh(folder)}
    return sorted(found, key=lambda folder: folder.name)[-64:]  # runs that are followed at once


def _held(pid: int, proc: Path) -> list[Path]:
    """Return the run folders that a supervisor's recorder has open."""
    if not opening.is_mine(f"{proc}/{pid}"):
        return []
    processes = (pid, *children_of(f"{proc}/{pid}"))
    return [folder for process in processes for folder in _open(f"{proc}/{process}/fd")]


def _open(descriptors: str) -> list[Path]:
    """Return the run folders among the descriptors of a process."""
    found = []
    try:
        for descriptor in os.scandir(descriptors):
            target = os.readlink(descriptor.path)  # noqa: PTH115 - dozens of them
            if target.startswith("/") and os.path.isfile(f"{target}/{RUN}") and opening.is_mine(target):  # noqa: PTH113 - as above
                found.append(Path(target))
    except OSError:  # it has ended, or is somebody else's: what was seen so far counts
        pass
    return found


def fresh(folder: Path) -> bool:
    """Return whether a recorder has written into this run folder, or into a seat of it, a moment ago."""
    try:
        latest = max((entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(folder)), default=0.0)
        if any(name.startswith(SEAT) for name in os.listdir(folder)):  # noqa: PTH208 - a list of names
            return any(fresh(seat) for seat in folder.glob(f"{SEAT}*"))
    except OSError:
        return False
    return abs(time.time() - latest) < 15.0 and (folder / RUN).is_file()  # s: a recorder writes once a second


def _whole(folder: Path) -> Path:
    """Return the job's folder of a seat in it, else the folder."""
    return folder.parent if folder.name.startswith(SEAT) and (folder.parent / MARK).is_file() else folder
