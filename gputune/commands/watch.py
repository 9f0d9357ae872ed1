"""Run a training unchanged, then say where its time went, why, and what the fix is worth."""

import sys
from typing import Any

import click

from gputune.commands import _documents, _kinds
from gputune.core import config
from gputune.core.errors import BadUsage, GputuneError
from gputune.launch import values
from gputune.launch.express import FASTEST
from gputune.launch.link import PipeEnd
from gputune.launch.run import HZ, WatchOptions

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
DEFAULT_SIZE = "512MiB"

HELP = f"""{__doc__}

CMD is anything: a script with its interpreter, a shell script, torchrun, accelerate. Its input, output, exit status
and signals stay its own; gputune speaks on stderr, once it has ended. With `--pid` a training that runs already is only
looked at, for a while.

\b
Example:
  gputune watch -- python train.py --epochs 3
"""


def _hz(ctx: click.Context, param: click.Parameter, value: float) -> float:
    if not 0 < value <= FASTEST:
        raise BadUsage(
            f"{config.origin(ctx, param, f'{value:g}')} is not a rate between 0 and {FASTEST:g} readings a second",
            hint="10 is the default and enough: `gputune watch --hz 10 -- CMD`",
        )
    return value


def _size(text: str) -> int | None:
    text = text.strip().upper().removesuffix("B")
    digits = text.rstrip("KMGTI")
    try:
        size = int(float(digits) * UNITS[text[len(digits) :]])
    except (ValueError, KeyError, OverflowError):
        return None
    return size if size >= 1 << 20 else None  # bytes: a recording cannot be cut down below its first segment


# What an option's value must be, and one that is: said together when it is not.
SIZE = _kinds.read_by(_size, "is not a size of at least 1MiB", "`--max-size 512MiB`")
PRICE = _kinds.read_by(values.price, "is not a price: what one device costs an hour", "`--price 2.50`")
FAIL_UNDER = _kinds.read_by(values.share, "is not a percentage above 0, at most 100", "`--fail-under 70`")
STOP_WHEN = _kinds.read_by(
    values.starving, "is not a condition: `starving`, or `starving:SECONDS`", "`--stop-when starving:120`"
)
PERTURB = _kinds.read_by(values.perturbing, "is not a percentage from 0 to 3", "`--perturb 0.5%`")
TUNE = _kinds.read_by(
    values.tuning, "is not what may be tuned: `all` or `identical`", "`--tune -- CMD` or `--tune=identical -- CMD`"
)
EXPORT = _kinds.read_by(
    values.exporting, f"is not any of {', '.join(values.exporters())}", "`--export perfetto,tensorboard`"
)
FOR = _kinds.read_by(values.seconds, "is not a time of at least a second", "`--for 60s`")


# allow_interspersed_args: what follows the name of the command belongs to the command, with or without `--`
@click.command(short_help=__doc__, help=HELP, context_settings={"allow_interspersed_args": False})
@click.option("--out", metavar="DIR", help="Folder of the recording: new or empty.  [default: gputune-runs/…]")
@click.option(
    "--hz",
    metavar="N",
    type=float,
    default=HZ,
    callback=_hz,
    show_default=False,
    help=f"Readings a second.  [default: {HZ:g}]",
)
@_documents.file_option("Write the verdict as JSON too; - is stdout, after the run.")
@click.option("--json", metavar="FILE", callback=_documents.writable, help="The older name of --json-file.")
@click.option(
    "--max-size",
    metavar="SIZE",
    default=DEFAULT_SIZE,
    callback=SIZE,
    show_default=True,
    help="Most disk a recording may take.",
)
@click.option("--no-stacks", is_flag=True, help="Take no stacks of the training (no py-spy).")
@click.option("--quiet", is_flag=True, help="Print no verdict; `gputune report` shows it later.")
@click.option("--html", is_flag=True, help="Write the verdict as a page into the run folder: report.html.")
@click.option(
    "--export",
    metavar="NAME[,…]",
    callback=EXPORT,
    shell_complete=lambda _ctx, _param, begun: [name for name in values.exporters() if name.startswith(begun)],
    help="Afterwards take it there, as `gputune export` does: " + ", ".join(values.exporters()) + ".",
)
@click.option(
    "--perturb",
    metavar="PERCENT",
    callback=PERTURB,
    help="Hold device and workers back for so much of the time at most, each, to see what that does (0.3).",
)
@click.option("--passive", is_flag=True, help="Hold nothing back: `--perturb 0`.")
@click.option("--all-devices", is_flag=True, help="Read every GPU, not only those of the command.")
@click.option("--prove", metavar="ID", help="Afterwards run it again, to prove that finding (`top`: the best).")
@click.option("--tui", is_flag=True, envvar=[], help="Show it on a screen meanwhile; its output goes into a file.")
@click.option("--price", metavar="N", callback=PRICE, help="What a device costs an hour, in any currency.")
@click.option(
    "--fail-under",
    metavar="PERCENT",
    callback=FAIL_UNDER,
    help="Leave 3 if the device was less busy over the loop (without one: if more of it was waiting).",
)
@click.option(
    "--stop-when",
    metavar="COND",
    callback=STOP_WHEN,
    help="End the training once starving[:SECONDS] has held so long (60), and leave 4.",
)
@click.option(
    "--tune",
    metavar="[=identical]",
    is_flag=False,
    flag_value="all",
    callback=TUNE,
    help="Tune the DataLoader while it trains, and keep what pays. =identical: only what changes no number.",
)
@click.option(
    "--try", "tries", is_flag=True, help="Measure what better settings of the DataLoader bring, and go back to its own."
)
@click.option("--pid", type=int, metavar="PID", envvar=[], help="Look at a training that runs already, instead of CMD.")
@click.option("--for", "seconds", metavar="TIME", envvar=[], callback=FOR, help="With --pid: how long, like 5m.")
@click.argument("cmd", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(  # noqa: PLR0913 - what decides who is asked
    ctx: click.Context,
    /,
    *,
    cmd: tuple[str, ...],
    json: str | None,
    json_file: str | None,
    prove: str | None,
    pid: int | None,
    seconds: float | None,
    tui: bool,
    tries: bool,
    **asked: Any,
) -> int:
    """Hand what was asked for to the undertaking."""
    from gputune.watching import starting  # noqa: PLC0415 - not for --help

    out, tune, perturb = asked.pop("out"), asked.pop("tune"), asked.pop("perturb")
    if tries and tune:
        says = "`--try` goes back to the script's own settings, and `--tune` keeps better ones"
        raise BadUsage(says, hint="`gputune watch --try -- CMD`, or `gputune watch --tune -- CMD`")
    tune = values.TRYING if tries else tune
    if pid is not None or seconds is not None:
        gates = asked["fail_under"] is not None or asked["stop_when"] is not None
        _check_attached(ctx, cmd, pid, gates=gates, prove=prove, tune=tune)
    elif not cmd:
        raise BadUsage("no command to watch", hint="put it after two dashes: `gputune watch -- python train.py`")
    json = _one(ctx, json_file, json)
    if tui:
        return _on_screen(ctx, out, cmd, prove=prove, pid=pid)
    if prove:
        return _proved(ctx, out, cmd, prove, tune)
    if pid is None and not isinstance(ctx.obj, PipeEnd):
        raise GputuneError("`watch` was called without its supervisor", hint="start it as `gputune watch -- CMD`")
    passive, stacks, export = asked.pop("passive"), not asked.pop("no_stacks"), asked.pop("export") or ""
    perturb = 0.0 if passive else values.PERTURBED if perturb is None else perturb
    also: dict[str, Any] = {"perturb": perturb, "stacks": stacks, "tune": tune or "", "export": export}
    wishes = WatchOptions(cmd, out=out, json=json, pid=pid or 0, **also, **asked)
    unknown = ctx.meta.get(config.UNKNOWN, ())
    if pid is not None:
        from gputune.watching import attaching  # noqa: PLC0415 - not before a command starts at once

        return attaching.attach(wishes, seconds, unknown)
    return starting.watch(wishes, ctx.obj, unknown)


def _one(ctx: click.Context, named: str | None, older: str | None) -> str | None:
    """Return the file of the verdict, by the name of the option that was given nearer: on the command line first."""
    if named is None or older is None or named == older:
        return older if named is None else named
    near, far = ctx.get_parameter_source("json_file"), ctx.get_parameter_source("json")
    if near == far == click.core.ParameterSource.COMMANDLINE:
        raise BadUsage("`--json-file` and `--json`, its older name, say two things", hint="leave `--json` out")
    return older if far == click.core.ParameterSource.COMMANDLINE else named


def _proved(ctx: click.Context, out: str | None, cmd: tuple[str, ...], prove: str, tune: str | None) -> int:
    """Watch it, then prove what was found."""
    if tune:
        option = "--try" if tune == values.TRYING else "--tune"
        says = f"`{option}` and `--prove` do not go together: a proof runs it as it is, and changed"
        raise BadUsage(says, hint=f"`gputune watch --prove top -- CMD`, or `gputune watch {option} -- CMD`")
    if ctx.obj is not None:
        raise BadUsage("`--prove` was not given as an option", hint="type it: `gputune watch --prove top -- CMD`")
    from gputune.proving.watched import askable, watch_then_prove  # noqa: PLC0415 - not before a command starts at once

    askable(prove)
    return watch_then_prove(sys.argv[1:], out, cmd, prove)


def _on_screen(ctx: click.Context, out: str | None, cmd: tuple[str, ...], *, prove: str | None, pid: int | None) -> int:
    """Watch it with the screen in front of it."""
    if prove or pid is not None:
        other = "--prove" if prove else "--pid"
        raise BadUsage(f"`--tui` and `{other}` do not go together", hint="`gputune tui` in another terminal shows it")
    if ctx.obj is not None:
        raise BadUsage("`--tui` was not given as an option", hint="type it: `gputune watch --tui -- CMD`")
    from gputune.watching.onscreen import watch_on_screen  # noqa: PLC0415 - not before a command starts at once

    return watch_on_screen(sys.argv[1:], out, cmd)


def _check_attached(  # noqa: PLR0913 - one parameter an option
    ctx: click.Context, cmd: tuple[str, ...], pid: int | None, *, gates: bool, prove: str | None, tune: str | None
) -> None:
    """Refuse what does not go with looking at a process that runs already."""
    if pid is None:
        raise BadUsage("`--for` goes with `--pid` only", hint="`gputune watch --pid PID --for 60s`")
    if ctx.obj is not None:
        raise BadUsage("`--pid` was not given as an option", hint="type it: `gputune watch --pid PID`")
    if cmd:
        says = "`--pid` looks at a training that runs already, and a command was given, too"
        raise BadUsage(says, hint=f"`gputune watch --pid {pid}`, or `gputune watch -- CMD`")
    if gates or prove or tune:
        says = "`--fail-under`, `--stop-when`, `--prove`, `--tune` and `--try` need a command that gputune starts"
        raise BadUsage(says, hint=f"`gputune watch --pid {pid}` without them")
