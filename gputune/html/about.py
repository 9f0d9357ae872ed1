"""Where and with what a run ran: rows of a name and what is known of it, nothing of what is not."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import TypeAlias

from gputune.core.figures import duration, size
from gputune.core.sample import Json
from gputune.core.units import NS

Row: TypeAlias = tuple[str, str]
SYSTEMS = {"slurm": "Slurm", "pbs": "PBS", "lsf": "LSF", "kubernetes": "Kubernetes"}


def rows(story: Mapping[str, Json]) -> list[Row]:
    """Return what run.json tells of a run."""
    told = [
        ("started", started(story)),
        ("host", _text(story.get("host"))),
        ("CPUs", _cpus(_part(story, "cpus"))),
        ("memory", size(memory) if isinstance(memory := story.get("memory"), int | float) else ""),
        *_devices(story),
        ("folder", _text(story.get("cwd"))),
        ("commit", _commit(_part(story, "commit"))),
        ("job", _job(_part(story, "job"))),
        *_versions({**_first_note(story, "process"), **_part(story, "training")}),
        ("gputune", _text(story.get("gputune"))),
        ("readings", f"{story['hz']:g} a second" if isinstance(story.get("hz"), int | float) else ""),
        ("environment", " ".join(f"{name}={value}" for name, value in sorted(_part(story, "environment").items()))),
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


def _part(story: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    """Return a field that is an object, an empty one where it is none."""
    found = story.get(name)
    return found if isinstance(found, dict) else {}


def _cpus(cpus: Mapping[str, Json]) -> str:
    allowed, online = cpus.get("allowed"), cpus.get("online")
    if not isinstance(allowed, int | float):
        return ""
    return f"{allowed:g} of {online:g}" if isinstance(online, int | float) and online != allowed else f"{allowed:g}"


def _commit(commit: Mapping[str, Json]) -> str:
    """Return which commit the code is of, and whether it is as that commit has it."""
    found, branch = _text(commit.get("id")), _text(commit.get("branch"))
    if not found:
        return ""
    dirty = commit.get("dirty")
    state = "" if not isinstance(dirty, bool) else ", with changes" if dirty else ", without changes"
    return f"{found[:12]}{f' ({branch})' if branch else ''}{state}"


def _job(job: Mapping[str, Json]) -> str:
    system = _text(job.get("system"))
    return " ".join(filter(None, [SYSTEMS.get(system, system), _text(job.get("id"))]))


def _devices(story: Mapping[str, Json]) -> Iterator[Row]:
    names = [_text(note.get("name")) for note in notes_of(story, "device")]
    for name in dict.fromkeys(names):
        yield "device", f"{names.count(name)} × {name}" if names.count(name) > 1 else name
    cuda = _first_note(story, "driver").get("cuda")
    api = f"CUDA {cuda // 1000}.{cuda % 1000 // 10}" if isinstance(cuda, int) else ""
    yield "driver", ", ".join(filter(None, [_text(story.get("driver")), api]))


def _versions(process: Mapping[str, Json]) -> Iterator[Row]:
    cuda = _text(process.get("cuda"))
    for name in ("Python", "torch", "TensorFlow"):
        version = _text(process.get(name.lower()))
        yield name, f"{version}, built for CUDA {cuda}" if version and cuda and name == "torch" else version


def _text(value: Json) -> str:
    return "" if value is None else str(value)
