"""What a recorder is told of the run it records: all it needs to begin, and to begin again after it was killed."""

from typing import NamedTuple


class Run(NamedTuple):
    """One watched command. Its fields are plain, because a restarted recorder gets them through a pipe."""

    command: tuple[str, ...]
    folder: str  # "" where nothing can be kept
    shown: str  # the folder as the user would type it
    rings: str  # "" where guests cannot speak
    hz: float
    max_size: int  # bytes
    json: str  # file of the verdict: "" none, "-" stdout
    stacks: bool
    quiet: bool
    all_devices: bool
    troubles: tuple[str, ...]  # what went wrong before the start, said after the run


def plain(run: Run) -> dict[str, object]:
    """Return the fields of a run by name, to be sent."""
    return run._asdict()


def restored(fields: dict[str, object]) -> Run:
    """Return the run whose fields were sent."""
    return Run(**fields)  # type: ignore[arg-type] # they were taken from a Run, by plain()
