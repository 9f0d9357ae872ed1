"""Which job a run belongs to, in its launcher's own words: nodes of one job stand together on the screen."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from gputune.core import opening
from gputune.core.hygiene import clean
from gputune.core.sample import Json
from gputune.host.procfs import read_bytes
from gputune.launch.job import MARK

# The batch system first: a job of its may start several of the others. JOB_NAME a pod has from deploy/pytorchjob.yaml.
NAMES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "TORCHELASTIC_RUN_ID", "JOB_NAME")
NOBODYS = frozenset({"", "none"})  # what torchrun calls a job that was given no name
OWN = "GPUTUNE_RINGS"  # in the environment of what is watched here: another machine's pid may be anybody's here
HERE_ALONE = ("127.0.0.1", "localhost")  # in the key of a job that another machine may have one alike of
LONGEST = 60  # characters


def job_of(story: Mapping[str, Json], folder: Path, mains: Iterable[int], proc: Path = Path("/proc")) -> str:
    """Return the job of a run, "" where nobody says: of its `run.json`, of its processes, of its folder.

    `gputune watch -- torchrun …` has no name in its own environment: torchrun gives it to its ranks, the `mains`.
    """
    kept = story.get("environment")
    if found := _named(kept if isinstance(kept, dict) else {}):
        return found
    for pid in mains:
        theirs = _environment(pid, proc)
        if OWN in theirs and (found := _named(theirs)):
            return found
    return _shared(folder)


def _named(environ: Mapping[str, Json]) -> str:
    said = (clean(str(environ.get(name) or ""), LONGEST) for name in NAMES)
    return next((word for word in said if word not in NOBODYS), "")


def _environment(pid: int, proc: Path) -> dict[str, Json]:
    words = read_bytes(f"{proc}/{pid}/environ").decode(errors="replace").split("\0")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _shared(folder: Path) -> str:
    """Return the key that the watches of one job met under, where it cannot be another job's on another machine."""
    try:
        key = opening.read(folder / MARK).decode()
    except (OSError, ValueError):
        return ""
    return "" if any(word in key for word in HERE_ALONE) else clean(key, LONGEST)
