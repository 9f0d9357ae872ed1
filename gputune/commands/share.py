"""Run several processes on one card: do they fit, does it pay, and what became of each."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from click.decorators import FC

from gputune.commands import _documents, _kinds
from gputune.core import config
from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.launch import values
from gputune.launch.link import PipeEnd
from gputune.sharing import jobsfile
from gputune.sharing.metric import metric
from gputune.sharing.spec import AUTO, Cpus, Guard, Mps, OnFailure, Spec, TaskSpec

HELP = f"""{__doc__}

TASK is a script, `-m MODULE`, or any command after `--`. Each process gets its arguments, then `--process_index i
--process_num N`, a log of its own and GPUTUNE_PROCESS_INDEX and GPUTUNE_PROCESS_NUM. The first one runs alone for a few
seconds of batches; the others join it if they fit. Several different commands: `-- 'cmd a' -- 'cmd b'`, or a file.

Status: 0 if all left 0, else the first failure's; 2 for what does not fit.

\b
Example:
  gputune share --procs 3 train.py --epochs 3
"""

COMMANDS = "gputune.commands"  # the key of click's `meta`: what was typed began with two dashes
MODULE = "-m"
AUTO_WORD = "auto"
FLAG = re.compile(r"-{1,2}[A-Za-z][\w.-]*")
PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
IN_THE_FILE = {  # options of one task, and how a jobs file says the same
    "memory": "its own `memory`",
    "host_memory": "its own `host-memory`",
    "no_index_args": "its own `index-args`",
}


class ShareCommand(click.Command):
    """Leaves everything from TASK on as it was typed: to click, `-m` and what follows would be options of ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Part our options from the task."""
        own, rest = self._parted(args)
        ctx.meta[COMMANDS] = rest[:1] == ["--"]
        return super().parse_args(ctx, [*own, "--", *(rest[1:] if ctx.meta[COMMANDS] else rest)])

    def _parted(self, args: list[str]) -> tuple[list[str], list[str]]:
        with_value = {
            name
            for option in self.params
            if isinstance(option, click.Option) and not option.is_flag
            for name in option.opts
        }
        at = 0
        while at < len(args):
            word = args[at]
            if word in {"--", MODULE} or not word.startswith("-") or word == "-":
                break
            at += 2 if word in with_value else 1
        return args[:at], args[at:]


def _procs(text: str) -> int | None:
    if text.strip().lower() == AUTO_WORD:
        return AUTO
    return int(text) if text.strip().isdigit() and int(text) > 0 else None


def _failure(text: str) -> tuple[str, int] | None:
    word, sign, count = text.partition("=")
    if word not in {"continue", "stop", "restart"} or (sign and (word != "restart" or not count.isdigit())):
        return None
    return word, int(count) if sign else 3  # new starts of a process that keeps failing


def _gpus(text: str) -> tuple[str, ...] | None:
    words = tuple(word.strip() for word in text.split(","))
    return words if all(words) and len(set(words)) == len(words) else None


def _weights(text: str) -> tuple[float, ...] | None:
    found = tuple(values.number(word) or 0.0 for word in text.split(","))
    return found if all(weight > 0 for weight in found) else None


def _trial(text: str) -> float | None:
    return 0.0 if text.strip() in {"0", "0s"} else values.seconds(text)


def _gain(text: str) -> float | None:
    value = values.number(text)
    return value if value is not None and value > 0 else None


def _matching(pattern: "re.Pattern[str]") -> Callable[[str], str | None]:
    return lambda text: text if pattern.fullmatch(text) else None


KINDS: dict[str, tuple[Callable[[str], object], str, str]] = {
    "procs": (_procs, "a number of processes: 1 or more, or `auto`", "--procs 3"),
    "at_once": (lambda text: _procs(text) or None, "a number of processes: 1 or more", "--at-once 2"),
    "on_failure": (_failure, "`continue`, `stop`, `restart` or `restart=K`", "--on-failure restart=2"),
    "gpus": (_gpus, "a list of different GPUs", "--gpus 0,1"),
    "memory": (jobsfile.memory, "a size", "--memory 6GB"),
    "host_memory": (jobsfile.memory, "a size", "--host-memory 4GB"),
    "trial": (_trial, "a time of at least a second, or 0", "--trial 10s"),
    "stall_timeout": (values.seconds, "a time of at least a second", "--stall-timeout 10m"),
    "grace": (values.seconds, "a time of at least a second", "--grace 30s"),
    "weights": (_weights, "a list of numbers above 0", "--weights 2,1,1"),
    "min_gain": (_gain, "a gain: a number above 0", "--min-gain 1.1"),
    "index_flag": (_matching(FLAG), "the name of an option", "--index-flag --shard"),
    "num_flag": (_matching(FLAG), "the name of an option", "--num-flag --shards"),
    "index_env": (_matching(PREFIX), "the beginning of a variable's name", "--index-env SHARD"),
}


def _option(name: str, metavar: str, text: str, **more: Any) -> Callable[[FC], FC]:
    read, what, like = KINDS[name.removeprefix("--").replace("-", "_")]
    callback = _kinds.read_by(read, f"is not {what}", f"`{like}`")
    return click.option(name, metavar=metavar, callback=callback, help=text, **more)


@click.command(cls=ShareCommand, short_help="several processes on one card", help=HELP)
@_option("--procs", "N|auto", "How many, per card; auto: as many as pay.")
@click.option("--jobs", type=click.Path(path_type=Path), metavar="FILE", help="Several jobs: docs/share.md.")
@click.option("--python", metavar="PATH", help="The interpreter of TASK.  [default: python in PATH]")
@click.option("--gpu", metavar="ID|auto", help="The card: its place among the visible ones, its UUID, or the emptiest.")
@_option("--gpus", "A,B", "Several cards, --procs on each.")
@click.option("--out", metavar="DIR", help="Folder of the recording: new or empty.  [default: gputune-runs/…]")
@click.option("--log-dir", metavar="DIR", help="Where process0.log and its like go.  [default: the recording's]")
@click.option("--follow", is_flag=True, help="Print what they write, as it comes, each line with its process.")
@click.option("--own-dirs", is_flag=True, help="Each runs in a folder of its own, beside its log.")
@_option("--index-flag", "NAME", "Instead of --process_index.", default="--process_index", show_default=False)
@_option("--num-flag", "NAME", "Instead of --process_num.", default="--process_num", show_default=False)
@click.option("--no-index-args", is_flag=True, help="Add no arguments; the variables stay.")
@_option("--index-env", "PREFIX", "PREFIX_INDEX and PREFIX_NUM as variables, and no arguments.")
@_option("--on-failure", "WHAT", "continue, stop, or restart[=K].  [default: continue]", default="continue")
@_option("--stall-timeout", "TIME", "End a process without a batch or output for so long.")
@_option("--grace", "TIME", "Between asking a process to end and ending it.  [default: 10s]", default="10s")
@_option("--memory", "SIZE", "Device memory of one, as nvidia-smi shows it: checked before anything starts.")
@_option("--host-memory", "SIZE", "Host memory of one, likewise.")
@_option("--trial", "TIME", "Batches the first one makes alone; 0: all start at once.  [default: 5s]", default="5s")
@click.option("--metric-regex", metavar="RE", help="Take the pace from the logs: a group with a number.")
@_option("--min-gain", "X", "Fewer at once where all do less than X times one.  [default: 1]", default="1")
@click.option("--trial-each", is_flag=True, help="One of each job is measured alone; then those run that fit together.")
@click.option("--queue", is_flag=True, help="Those that do not fit wait their turn.")
@_option("--at-once", "N", "At most so many at a time, on each card; the others wait.")
@click.option(
    "--guard",
    type=click.Choice(["pause", "end", "off"]),
    default="pause",
    help="What the newest gets as memory runs out.  [default: pause]",
)
@click.option(
    "--mps",
    type=click.Choice(["auto", "on", "off"]),
    default="auto",
    help="Use a daemon that runs (auto), or start one (on).  [default: auto]",
)
@_option("--weights", "A,B,…", "Parts of the card, one for each process, under MPS.")
@click.option(
    "--cpus",
    type=click.Choice(["split", "all"]),
    default="split",
    help="CPUs and threads divided among them, or not.  [default: split]",
)
@click.option("--max-workers", type=click.IntRange(0), metavar="N", help="Most workers of each DataLoader.")
@click.option(
    "--ray", metavar="ADDRESS", envvar=[], help="On that Ray cluster (`auto`: ours), with fractions of its GPUs."
)
@click.option("--dry-run", is_flag=True, help="Print the plan, and start nothing.")
@_documents.options("share", "Print the result as JSON too, at the end.")
@click.argument("task", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, /, **asked: Any) -> int:
    """Turn what was asked for into a spec, and hand it to the undertaking."""
    typed = [name for name in IN_THE_FILE if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE]
    spec = _spec(asked, _jobs(asked, typed, commands=bool(ctx.meta.get(COMMANDS))))
    from gputune.sharing import preparing  # noqa: PLC0415 - not for a mistake in the options

    shown = msgspec.structs.replace(spec, logs=asked["log_dir"] or asked["out"] or "gputune-runs/…")
    if asked["ray"] and isinstance(ctx.obj, PipeEnd):
        raise BadUsage(
            "`--ray` was not given as an option", hint="type it: `gputune share --ray ADDRESS --procs 3 TASK`"
        )
    if asked["ray"]:
        from gputune.sharing import onray  # noqa: PLC0415 - as above

        if asked["dry_run"]:
            click.echo(onray.dry(asked["ray"], shown))
            return 0
        return onray.share(asked["ray"], spec, asked["out"], asked["log_dir"])
    if asked["dry_run"]:
        preparing.check(spec)
        _rehearse(shown)
        return 0
    if not isinstance(ctx.obj, PipeEnd):
        raise GputuneError(
            "`share` was called without its supervisor", hint="start it as `gputune share --procs N TASK`"
        )
    return preparing.share(spec, asked["out"], asked["log_dir"], ctx.obj, ctx.meta.get(config.UNKNOWN, ()))


def _rehearse(spec: Spec) -> None:
    """Print the plan. Raises GputuneError where the run would be refused, after the plan was printed."""
    from gputune.sharing import planning  # noqa: PLC0415 - a run has no need of it

    plan, refused = planning.rehearse(spec)
    wanted = _documents.Wanted(spec.as_json, spec.json_file)
    if not wanted.stdout:
        click.echo(planning.text(plan))
    wanted.put(plan)
    if refused is not None:
        raise refused


def _jobs(asked: dict[str, Any], typed: Sequence[str], *, commands: bool) -> tuple[TaskSpec, ...]:
    """Return the jobs. Raises BadUsage where nothing, or two things at once, are to be run."""
    words: tuple[str, ...] = asked["task"]
    if asked["jobs"] is not None:
        if words or asked["procs"] is not None:
            raise BadUsage("`--jobs` says what runs and how often", hint="leave TASK and `--procs` out")
        if typed:
            option = f"--{typed[0].replace('_', '-')}"
            raise BadUsage(
                f"with `--jobs`, `{option}` is said in the file", hint=f"each job has {IN_THE_FILE[typed[0]]}"
            )
        return jobsfile.read(asked["jobs"])
    if not words:
        raise BadUsage("no task to run", hint="like `gputune share --procs 3 train.py`")
    count = AUTO if asked["procs"] == AUTO else asked["procs"] or 0
    several = commands and "--" in words and all(word == "--" or " " in word for word in words)
    if several:
        if count == AUTO and asked["procs"] is not None:
            raise BadUsage(
                "`--procs auto` is for copies of one task", hint="`--queue` lets several jobs wait their turn"
            )
        texts = [word for word in words if word != "--"]
        return tuple(_plain(text, number, count or 1, asked) for number, text in enumerate(texts))
    if asked["procs"] is None:
        raise BadUsage("how many processes?", hint="like `--procs 3`, or `--procs auto`")
    argv = _argv(words, asked["python"], commands=commands)
    index_args = not asked["no_index_args"] and not asked["index_env"]
    job = TaskSpec(
        argv=argv, count=count, memory=asked["memory"], host_memory=asked["host_memory"], index_args=index_args
    )
    return (job,)


def _plain(text: str, number: int, count: int, asked: Mapping[str, Any]) -> TaskSpec:
    """Return the job of one quoted command among several."""
    try:
        argv = tuple(shlex.split(text))
    except ValueError as error:
        raise BadUsage(f"`{clean(text, 80)}` is no command: {error}", hint="quote it as for a shell") from None
    return TaskSpec(
        argv=argv,
        name=f"job{number}",
        count=count,
        memory=asked["memory"],
        host_memory=asked["host_memory"],
        index_args=count > 1 and not asked["no_index_args"] and not asked["index_env"],
    )


def _argv(words: tuple[str, ...], python: str | None, *, commands: bool) -> tuple[str, ...]:
    """Return the command of a task: a script or a module gets an interpreter. Raises BadUsage."""
    if commands:
        if len(words) == 1 and " " in words[0] and not Path(words[0]).exists():
            return tuple(shlex.split(words[0]))
        return words
    interpreter = python or shutil.which("python") or shutil.which("python3") or sys.executable
    if words[0] == MODULE:
        if len(words) < 2:
            raise BadUsage("`-m` names no module", hint="like `gputune share --procs 3 -m package.train`")
        return (interpreter, *words)
    if not words[0].endswith(".py"):
        hint = f"a command comes after two dashes: `gputune share --procs 3 -- {clean(words[0], 60)}`"
        raise BadUsage(f"`{clean(words[0], 80)}` is no Python script", hint=hint)
    if not Path(words[0]).is_file():
        raise BadUsage(f"`{clean(words[0], 80)}` does not exist", hint="check the spelling, or give the script's path")
    return (interpreter, *words)


def _spec(asked: dict[str, Any], jobs: tuple[TaskSpec, ...]) -> Spec:
    """Return everything that was asked for. Raises BadUsage for what does not go together."""
    if asked["gpu"] and asked["gpus"]:
        raise BadUsage("`--gpu` and `--gpus` say two things", hint="`--gpu` for one card, `--gpus` for several")
    if asked["metric_regex"]:
        metric(asked["metric_regex"])
    if asked["procs"] == AUTO and not asked["trial"] and not asked["ray"]:  # a cluster goes by `--memory` then
        raise BadUsage(
            "`--procs auto` needs one process measured alone, and `--trial 0` measures none",
            hint="leave `--trial 0` out, or say how many: `--procs 3`",
        )
    jobs = _weighted(jobs, asked["weights"])
    on_failure: OnFailure = asked["on_failure"][0]
    guard: Guard = asked["guard"]
    mps: Mps = asked["mps"]
    cpus: Cpus = asked["cpus"]
    return Spec(
        jobs=jobs,
        index_flag=asked["index_flag"],
        num_flag=asked["num_flag"],
        index_env=asked["index_env"] or "",
        own_dirs=asked["own_dirs"],
        follow=asked["follow"],
        colour=_colour(to_stderr=asked["wanted"].stdout),
        as_json=asked["wanted"].stdout,
        json_file=asked["wanted"].file and str(Path(asked["wanted"].file).absolute()),
        on_failure=on_failure,
        restarts=asked["on_failure"][1],
        stall=asked["stall_timeout"] or 0.0,
        grace=asked["grace"],
        trial_each=asked["trial_each"],
        queue=asked["queue"] or asked["trial_each"] or asked["at_once"] is not None,
        at_once=asked["at_once"] or AUTO,
        trial=asked["trial"],
        min_gain=asked["min_gain"],
        guard=guard,
        metric=asked["metric_regex"] or "",
        gpus=asked["gpus"] or ((asked["gpu"],) if asked["gpu"] else ()),
        mps=mps,
        cpus=cpus,
        workers=-1 if asked["max_workers"] is None else asked["max_workers"],
    )


def _weighted(jobs: tuple[TaskSpec, ...], weights: tuple[float, ...] | None) -> tuple[TaskSpec, ...]:
    """Return jobs with their parts of the card: a weight for each process. Raises BadUsage unless there are as many."""
    if weights is None:
        return jobs
    if len(jobs) == 1 and jobs[0].count == len(weights):
        return (msgspec.structs.replace(jobs[0], weights=weights),)
    if len(jobs) == len(weights):
        return tuple(msgspec.structs.replace(job, weight=weight) for job, weight in zip(jobs, weights, strict=True))
    raise BadUsage(f"{len(weights)} weights were given", hint="one for each process, or for each job")


def _colour(*, to_stderr: bool) -> bool:
    from gputune.report.streams import colour_wanted  # noqa: PLC0415 - not for a mistake in the options

    return colour_wanted(os.environ, terminal=os.isatty(2 if to_stderr else 1))
