"""The undertaking behind `gputune watch`: what must be ready before the command starts, and nothing else.

It runs in the recorder, and the supervisor waits for it: from here to `link.send` every import delays the command.
"""

import os
from collections.abc import Mapping, Sequence

from gputune.core.errors import BadUsage
from gputune.launch import folders
from gputune.launch.link import PipeEnd, Plan
from gputune.launch.run import WatchedRun, WatchOptions
from gputune.launch.values import PERTURBED

# Read by gputune itself, not meant for a gputune inside the command: its output would collide with ours.
RANKS = ("RANK", "HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")  # set by a job's launcher
# GPUTUNE_ONLY is that of an outer `gputune run`, whose guests measure nothing: inside of this watch they do.
# GPUTUNE_STEER is the channel of an outer watch, which hears nothing of what is listened to here.
FILES = ("GPUTUNE_WATCH_JSON", "GPUTUNE_JSON", "GPUTUNE_WATCH_JSON_FILE", "GPUTUNE_JSON_FILE")
SENT = ("GPUTUNE_WATCH_EXPORT", "GPUTUNE_EXPORT")
CONSUMED = ("GPUTUNE_WATCH_OUT", "GPUTUNE_OUT", "GPUTUNE_ONLY", "GPUTUNE_STEER", "GPUTUNE_GUEST_PERTURB", *FILES, *SENT)


def watch(wishes: WatchOptions, link: PipeEnd, troubles: "Sequence[str]" = ()) -> int:
    """Have the supervisor start the command, record it to its end, and say what was found.

    `troubles` are sentences to be said with it: what was wrong, and not so wrong that the command should not run.
    Raises BadUsage before the command has started; after that nothing is raised, whatever fails.
    """
    check_json(wishes.json)
    check_html(asked=wishes.html)
    troubles = list(troubles)
    folder, job = seat(wishes, troubles)
    rings = folders.rings_or_trouble(troubles)
    steer = _channel(wishes, rings, job, troubles)
    wishes.json = _absolute(wishes.json)
    run = WatchedRun(wishes, folder=folder, rings=rings, troubles=troubles, job=job)
    plan = Plan(
        wishes.command,
        environment(rings, steer, perturb=wishes.perturb),
        rings,
        run.plain(),
        keeps_stdout=run.json == "-",
    )
    link.send(plan)
    from gputune.watching import recorder  # noqa: PLC0415 - the command has started; now there is time

    return recorder.record(link, run)


def environment(rings: str, steer: str = "", *, perturb: float = PERTURBED) -> dict[str, str | None]:
    """Return what changes for the command: where its guests come from, where they write, who steers them.

    `perturb`: the share of the time for which they may hold a device or workers back.
    """
    changes: dict[str, str | None] = dict.fromkeys(name for name in CONSUMED if name in os.environ)
    guest = folders.guest()
    if not rings or os.pathsep in guest:
        return changes
    theirs = os.environ.get("PYTHONPATH")  # an empty entry in it, but not an empty variable, is the current folder
    others = [entry for entry in theirs.split(os.pathsep) if entry != guest] if theirs else []
    changes["PYTHONPATH"] = os.pathsep.join([guest, *others])
    changes["GPUTUNE_RINGS"] = rings
    changes["GPUTUNE_HOST_PID"] = str(os.getppid())
    if steer:
        changes["GPUTUNE_STEER"] = steer
    if perturb != PERTURBED:
        changes["GPUTUNE_GUEST_PERTURB"] = f"{perturb:g}"
    return changes


def seat(wishes: WatchOptions, troubles: list[str], environ: "Mapping[str, str]" = os.environ) -> tuple[str, str]:
    """Return the folder of this watch, and that of the job where it is one of several watches; "" for none."""
    if any(name in environ for name in RANKS):
        from gputune.launch import job  # noqa: PLC0415 - a watch that is alone need not know of jobs

        told = job.told(environ)
        if told is not None:
            try:
                whole, own = job.sit_down(told, wishes.command, wishes.out)
            except OSError as error:
                troubles.append(folders.unwritten(wishes.out, error))
                return "", ""
            return own, whole
    return folders.kept_or_trouble(wishes.out, wishes.command, troubles), ""


def _channel(wishes: WatchOptions, rings: str, job: str, troubles: list[str]) -> str:
    """Make the file of orders for `--tune` and return its path; "" where there is none, and nothing is tuned then."""
    if not wishes.tune:
        return ""
    why = "no folder for its orders" if not rings else ""
    if job:
        why = "each rank has a watch of its own, and all of them would have to change at once"
    if not why:
        from pathlib import Path  # noqa: PLC0415 - only where something is tuned

        from gputune.launch.steering import FILE, OrderChannel  # noqa: PLC0415 - as above

        path = os.path.join(rings, FILE)
        try:
            OrderChannel(Path(path)).close()
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return path
    wishes.tune = ""
    troubles.append(f"its loader was not tuned: {why}")
    return ""


def check_json(file: str | None) -> None:
    """Raise BadUsage where `--json-file` names what cannot be a file."""
    if not file or file == "-":
        return
    parent = os.path.dirname(file) or "."
    if os.path.isdir(file) or not os.path.isdir(parent):
        what = "is a folder" if os.path.isdir(file) else f"lies in `{parent}`, which does not exist"
        raise BadUsage(f"`--json-file {file}` {what}", hint="name a file, or `-` for stdout after the run")


def check_html(*, asked: bool) -> None:
    """Raise BadUsage where a page is asked for, and what fills it in is not installed."""
    if not asked:
        return
    from importlib.util import find_spec  # noqa: PLC0415 - only where a page is asked for

    if find_spec("jinja2") is None:
        raise BadUsage("`--html` needs jinja2", hint="pip install 'gputune[report]'")


def _absolute(file: "str | None") -> "str | None":
    try:
        return os.path.abspath(file) if file and file != "-" else file
    except OSError:  # the current folder was removed
        return file
