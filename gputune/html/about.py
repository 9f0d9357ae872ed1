"""Where and with what a run ran: rows of a name and what is known of it, nothing of what is not."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import TypeAlias

from gputune.figures import duration
from gputune.sample import Json
from gputune.units import NS

Row: TypeAlias = tuple[str, str]
JOBS = {"SLURM_JOB_ID": "Slurm job", "PBS_JOBID": "PBS job", "LSB_JOBID": "LSF job", "TORCHELASTIC_RUN_ID": "torchrun"}


def rows(story: Mapping[str, Json]) -> list[Row]:
    """Return what run.json tells of a run."""
    process = _first_note(story, "process")
    told = [
        ("started", started(story)),
        ("host", _text(story.get("host"))),
        ("folder", _text(story.get("cwd"))),
        *_devices(story),
        ("Python", _text(process.get("python"))),
        ("torch", _torch(process)),
        *_job(story),
        ("gputune", _text(story.get("gputune"))),
        ("readings", f"{story['hz']:g} a second" if isinstance(story.get("hz"), int | float) else ""),
        *_environment(story),
    ]
    return [row for row in told if row[1]]


def started(story: Mapping[str, Json]) -> str:
    """Return when a run began, "" where that is not known."""
    began, offset = story.get("started"), story.get("unix_minus_monotonic_ns")
    if not isinstance(began, int) or not isinstance(offset, int):
        return ""
    try:
        return f"{datetime.fromtimestamp((began + offset) / NS, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):  # no clock shows that
        return ""


def so_far(story: Mapping[str, Json], wall_s: float) -> str:
    """Return that a run has not ended, or that its recorder was lost; "" of one that is over."""
    if story.get("exit_code") is not None or story.get("finished"):
        return ""
    return f"as it was after {duration(wall_s)}: the run went on when this was written, or its recorder was killed"


def notes_of(story: Mapping[str, Json], kind: str) -> Iterator[Mapping[str, Json]]:
    """Yield what processes, then the machine, have said of a kind."""
    processes = story.get("processes")
    said = [p.get("notes") for p in processes if isinstance(p, dict)] if isinstance(processes, list) else []
    for notes in [*said, story.get("machine")]:
        for note in notes if isinstance(notes, list) else ():
            if isinstance(note, dict) and note.get("n") == kind:
                yield note


def _first_note(story: Mapping[str, Json], kind: str) -> Mapping[str, Json]:
    return next(notes_of(story, kind), {})


def _devices(story: Mapping[str, Json]) -> Iterator[Row]:
    names = [_text(note.get("name")) for note in notes_of(story, "device")]
    for name in dict.fromkeys(names):
        yield "device", f"{names.count(name)} × {name}" if names.count(name) > 1 else name
    cuda = _first_note(story, "driver").get("cuda")
    if isinstance(cuda, int):
        yield "driver", f"CUDA {cuda // 1000}.{cuda % 1000 // 10}"


def _torch(process: Mapping[str, Json]) -> str:
    torch, cuda = _text(process.get("torch")), _text(process.get("cuda"))
    return f"{torch}, built for CUDA {cuda}" if torch and cuda else torch


def _job(story: Mapping[str, Json]) -> Iterator[Row]:
    environment = story.get("environment")
    for name, what in JOBS.items():
        if isinstance(environment, dict) and environment.get(name):
            yield what, _text(environment[name])


def _environment(story: Mapping[str, Json]) -> Iterator[Row]:
    environment = story.get("environment")
    if isinstance(environment, dict) and environment:
        yield "environment", " ".join(f"{name}={value}" for name, value in sorted(environment.items()))


def _text(value: Json) -> str:
    return "" if value is None else str(value)
