"""The undertaking behind `gputune watch`: what must be ready before the command starts, and nothing else.

It runs in the recorder, and the supervisor waits for it: from here to `link.send` every import delays the command.
"""

import os
from pathlib import Path
from typing import NamedTuple

from gputune.errors import BadUsage
from gputune.launch import folders
from gputune.launch.link import Link, Plan
from gputune.launch.run import Run, plain

# Read by gputune itself, not meant for a gputune inside the command: its output would collide with ours.
CONSUMED = ("GPUTUNE_WATCH_OUT", "GPUTUNE_OUT", "GPUTUNE_WATCH_JSON", "GPUTUNE_JSON")


class Wishes(NamedTuple):
    """What was asked for on the command line, in the environment or in a file."""

    command: tuple[str, ...]
    out: str | None
    hz: float
    json: str | None
    max_size: int
    stacks: bool
    quiet: bool
    all_devices: bool


def watch(wishes: Wishes, link: Link) -> int:
    """Have the supervisor start the command, record it to its end, and say what was found.

    Raises BadUsage before the command has started; after that nothing is raised, whatever fails.
    """
    _check_json(wishes.json)
    troubles: list[str] = []
    folder = _folder(wishes, troubles)
    rings = _rings(troubles)
    run = Run(
        command=wishes.command,
        folder=folder,
        shown=os.path.relpath(folder) if folder else "",
        rings=rings,
        hz=wishes.hz,
        max_size=wishes.max_size,
        json=_absolute(wishes.json),
        stacks=wishes.stacks,
        quiet=wishes.quiet,
        all_devices=wishes.all_devices,
        troubles=tuple(troubles),
    )
    link.send(Plan(wishes.command, _environment(rings), rings, plain(run), keeps_stdout=run.json == "-"))
    from gputune import recorder  # noqa: PLC0415 - the command has started; now there is time

    return recorder.record(link, run)


def guest_folder() -> str:
    """Return the folder that goes in front of PYTHONPATH."""
    return str((Path(__file__).parent / "probes" / "guest").resolve())


def _environment(rings: str) -> dict[str, str | None]:
    """Return what changes for the command: where its guests come from, and where they write."""
    changes: dict[str, str | None] = dict.fromkeys(name for name in CONSUMED if name in os.environ)
    guest = guest_folder()
    if not rings or os.pathsep in guest:
        return changes
    others = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry != guest]
    changes["PYTHONPATH"] = os.pathsep.join([guest, *others]) if any(others) else guest
    changes["GPUTUNE_RINGS"] = rings
    changes["GPUTUNE_HOST_PID"] = str(os.getppid())
    return changes


def _folder(wishes: Wishes, troubles: list[str]) -> str:
    try:
        return folders.chosen(wishes.out) if wishes.out else folders.fresh(wishes.command)
    except OSError as error:
        where = wishes.out or folders.RUNS
        troubles.append(f"nothing was recorded: `{where}` cannot be written ({error.strerror or error})")
        return ""


def _rings(troubles: list[str]) -> str:
    try:
        return folders.rings()
    except OSError as error:
        troubles.append(f"nothing was heard from inside the training: no folder for its rings ({error.strerror})")
        return ""


def _check_json(file: str | None) -> None:
    if not file or file == "-":
        return
    path = Path(file)
    if path.is_dir() or not path.absolute().parent.is_dir():
        what = "is a folder" if path.is_dir() else f"lies in `{path.parent}`, which does not exist"
        raise BadUsage(f"`--json {file}` {what}", hint="name a file, or `-` for stdout after the run")


def _absolute(file: str | None) -> str:
    return str(Path(file).absolute()) if file and file != "-" else file or ""
