"""What must be ready before the launcher starts: folders, rings, a look at what cannot be.

It runs in the recorder, as `gputune/watching/starting.py` does for `watch`.
"""

import os
import resource
import signal
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.figures import size
from gputune.core.hygiene import clean
from gputune.core.isolation import own_python
from gputune.launch import folders
from gputune.launch.link import PipeEnd, Plan
from gputune.launch.run import WatchedRun, WatchOptions
from gputune.sharing import fitting, host
from gputune.sharing.spec import VARIABLE, Spec, encode, total
from gputune.watching import starting

LAUNCHER = "from gputune.sharing.launcher import main; main()"


class NoLogs(GputuneError):  # noqa: N818 - named for what happened
    """The tasks' output has no place."""

    status = BadUsage.status

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(
            f"logs cannot be written to `{clean(folder)}`: {why}", hint="name another folder: `--log-dir DIR`"
        )


def share(spec: Spec, out: str | None, log_dir: str | None, link: PipeEnd, troubles: Sequence[str] = ()) -> int:
    """Have the supervisor start the launcher, and record it to its end. Raises GputuneError before that."""
    check(spec)
    command = whole_command(spec)
    folder, logs, more = places(spec, out, log_dir)
    spec, said = msgspec.structs.replace(spec, folder=folder, logs=logs), [*troubles, *more]
    rings = folders.rings_or_trouble(said, "the tasks")
    blocked = tuple(int(number) for number in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    spec = msgspec.structs.replace(spec, rings=rings, parent=os.getppid(), mask=blocked)
    # Only 5.0 readings a second: several trainings at once are enough to do for a machine
    wishes = WatchOptions(command, out=out, hz=5.0, quiet=True, stacks=False)
    run = WatchedRun(wishes, folder=folder, rings=rings, troubles=said, family=True)
    environment: dict[str, str | None] = {**starting.environment(rings), **_override(spec), VARIABLE: encode(spec)}
    plan = Plan(tuple(own_python(LAUNCHER)), environment, rings, run.plain(), keeps_stdout=False, family=True)
    link.send(plan)
    from gputune.watching import recorder  # noqa: PLC0415 - the launcher has started; now there is time

    return recorder.record(link, run)


def check(spec: Spec) -> None:
    """Refuse what no machine of this size can hold. Raises BadUsage."""
    procs = total(spec.jobs, len(spec.gpus))
    at_once = min(procs, spec.at_once) if spec.at_once else procs
    whole, left = host.memory()
    if at_once * fitting.BARE > left and not spec.queue:
        bare = size(at_once * fitting.BARE)
        says = f"{at_once} processes do not fit into this machine: bare ones would take {bare} of memory"
        raise BadUsage(f"{says}, and {size(left)} of {size(whole)} are free", hint=_fewer(left))
    most, _hard = resource.getrlimit(resource.RLIMIT_NPROC)
    if most != resource.RLIM_INFINITY and at_once > most and not spec.queue:
        raise BadUsage(f"{at_once} processes are more than this user may have ({most})", hint="see `ulimit -u`")


def _fewer(left: float) -> str:
    return f"at the very most `--procs {max(1, int(left / fitting.BARE))}`; `--procs auto` finds what pays"


def whole_command(spec: Spec) -> tuple[str, ...]:
    """Return what the run is called: the first job's command."""
    return spec.jobs[0].argv


def _logs(log_dir: str | None, folder: str, spec: Spec) -> str:
    """Return the folder of the logs, made if need be. Raises NoLogs where they cannot be written."""
    if not log_dir and not folder:
        raise NoLogs(folders.RUNS, "it cannot be made")
    place = Path(log_dir or folder).absolute()
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        probe = place / f".gputune-{os.getpid()}"
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        probe.unlink()
    except OSError as error:
        raise NoLogs(str(log_dir or folder), error.strerror or str(error)) from None
    for job in spec.jobs:
        if job.cwd and not Path(job.cwd).is_dir():
            raise BadUsage(
                f"`{clean(job.cwd)}`, where {job.name or 'the task'} is to run, is no folder", hint="make it"
            )
    return str(place)


def _override(spec: Spec) -> dict[str, str]:
    """Return the variable that caps the workers of every loader, where that was asked for."""
    if spec.workers < 0:
        return {}
    rule = {"set": {}, "most": {"num_workers": spec.workers}}
    return {"GPUTUNE_OVERRIDE": msgspec.json.encode([rule]).decode()}


def places(spec: Spec, out: str | None, log_dir: str | None) -> tuple[str, str, list[str]]:
    """Return the run folder, the folder of the logs, and what is to be said of them.

    Raises GputuneError where the logs cannot be written.
    """
    said: list[str] = []
    folder = folders.kept_or_trouble(out, whole_command(spec), said)
    try:
        return folder, _logs(log_dir, folder, spec), said
    except GputuneError:
        if folder:
            folders.remove_empty(folder)
        raise
