"""What must be ready before the launcher starts: folders, rings, a look at what cannot be; and the dry run, in words.

It runs in the recorder, as `gputune/watching.py` does for `watch`.
"""

import os
import resource
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gputune import watching
from gputune.errors import BadUsage, GputuneError
from gputune.figures import size
from gputune.hygiene import clean, mask
from gputune.isolation import own_python
from gputune.launch import folders
from gputune.launch.link import Link, Plan
from gputune.launch.run import Run, Wishes
from gputune.sharing import cpus, fitting, host
from gputune.sharing.spec import VARIABLE, Spec, encode, total
from gputune.sharing.tasks import tasks

if TYPE_CHECKING:
    from gputune.sharing.cards import Cards

HZ = 5.0  # readings a second: several trainings at once are enough to do for a machine
LAUNCHER = "from gputune.sharing.launcher import main; main()"
DRY_S = 3.0  # s that the driver gets in a dry run
WORD = 200  # characters of a command that are shown


class NoLogs(GputuneError):  # noqa: N818 - named for what happened
    """The tasks' output has no place."""

    status = BadUsage.status

    def __init__(self, folder: str, why: str) -> None:
        super().__init__(
            f"logs cannot be written to `{clean(folder)}`: {why}", hint="name another folder: `--log-dir DIR`"
        )


def share(spec: Spec, out: str | None, log_dir: str | None, link: Link, troubles: Sequence[str] = ()) -> int:
    """Have the supervisor start the launcher, and record it to its end. Raises GputuneError before that."""
    check(spec)
    said = list(troubles)
    command = whole_command(spec)
    folder = _folder(out, command, said)
    try:
        spec = msgspec.structs.replace(spec, folder=folder, logs=_logs(log_dir, folder, spec))
    except GputuneError:
        if folder:
            folders.remove_empty(folder)
        raise
    rings = _rings(said)
    spec = msgspec.structs.replace(spec, rings=rings, parent=os.getppid())
    wishes = Wishes(command, out=out, hz=HZ, quiet=True, stacks=False)
    run = Run(wishes, folder=folder, rings=rings, troubles=said, family=True)
    environment: dict[str, str | None] = {**watching.environment(rings), **_override(spec), VARIABLE: encode(spec)}
    plan = Plan(tuple(own_python(LAUNCHER)), environment, rings, run.plain(), keeps_stdout=False, family=True)
    link.send(plan)
    from gputune import recorder  # noqa: PLC0415 - the launcher has started; now there is time

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


def _folder(out: str | None, command: tuple[str, ...], troubles: list[str]) -> str:
    try:
        return folders.chosen(out) if out else folders.fresh(command)
    except OSError as error:
        troubles.append(f"nothing was recorded: `{out or folders.RUNS}` cannot be written ({error.strerror or error})")
        return ""


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


def _rings(troubles: list[str]) -> str:
    try:
        return folders.rings()
    except OSError as error:
        troubles.append(f"nothing was heard from inside the tasks: no folder for their rings ({error.strerror})")
        return ""


def _override(spec: Spec) -> dict[str, str]:
    """Return the variable that caps the workers of every loader, where that was asked for."""
    if spec.workers < 0:
        return {}
    rule = {"set": {}, "most": {"num_workers": spec.workers}}
    return {"GPUTUNE_OVERRIDE": msgspec.json.encode([rule]).decode()}


def dry(spec: Spec) -> str:
    """Return the plan in words: commands, environment, places and the memory's arithmetic. Nothing is started."""
    from gputune.sharing.cards import Cards  # noqa: PLC0415 - a run reads the cards in its launcher

    check(spec)
    cards = Cards()
    try:
        cards.wait(DRY_S)
        return "\n".join(_plan(spec, cards))
    finally:
        cards.close()


def _plan(spec: Spec, cards: "Cards") -> list[str]:
    procs = total(spec.jobs, len(spec.gpus))
    names = tuple(wish for wish in spec.gpus)
    found = tasks(spec, names)
    at_once = min(spec.at_once or len(found), len(found))
    sets = cpus.sets(host.nodes(), at_once) if spec.cpus == "split" and at_once > 1 else []
    lines = []
    for place, task in enumerate(found):
        told = {name: value for name, value in task.env.items() if not name.startswith("GPUTUNE_SHARE")}
        shown = " ".join(mask([f"{name}={shlex.quote(value)}" for name, value in told.items()]))
        lines += [
            f"{task.name}: {clean(shown, 2 * WORD)} {clean(shlex.join(mask(task.argv)), 2 * WORD)}",
            f"  log {task.log}",
        ]
        if task.cwd:
            lines.append(f"  in {task.cwd}")
        if sets:
            lines.append(f"  CPUs {','.join(map(str, sorted(sets[place % len(sets)])))}")
    if not procs:
        lines.append("how many: found out by trying, from one copy's memory, busy share and pace")
    if spec.cpus == "split" and at_once > 1 and "OMP_NUM_THREADS" not in os.environ:
        lines.append(f"OMP_NUM_THREADS={cpus.threads(host.cores(), at_once)} for each, of {host.cores():g} CPUs")
    return [*lines, *_memory(spec, cards), *_measured(spec, procs)]


def _memory(spec: Spec, cards: "Cards") -> list[str]:
    """Return the arithmetic of what is known before anything has run."""
    whole, left = host.memory()
    lines = [f"host memory: {size(left)} of {size(whole)} are free"]
    if cards.state != "there":
        return [*lines, f"device: none ({cards.why})"]
    for card in cards.allowed():
        if card.room is None or card.used is None:
            continue
        free = card.room - card.used
        lines.append(f"{card.name}: {size(free)} of {size(card.room)} are free")
        given = [job for job in spec.jobs if job.memory]
        need = sum((job.memory or 0) * max(1, job.count) for job in given)
        if given:
            verdict = "fits" if need <= free else "does not fit"
            lines.append(f"  as given, all together take {size(need)}: {verdict}")
    return lines


def _measured(spec: Spec, procs: int) -> list[str]:
    if spec.trial > 0 and len(spec.jobs) == 1 and procs != 1:
        return [f"first one runs alone until it has made batches for {spec.trial:g} s; the others join if they fit"]
    return ["all start at once; nothing is measured of one alone"]
