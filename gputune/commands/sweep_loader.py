"""Find the best DataLoader settings of a training, without an edit of it.

The script runs a few times for some seconds each: as it is, with one batch again and again (what everything but the
loading allows), and with the settings that a model of its loader predicts to be best. The result is a table, and
`gputune.toml`, which `gputune run --with gputune.toml -- CMD` applies. What follows SCRIPT is the script's own.
"""

from pathlib import Path

import click

from gputune import config
from gputune.errors import BadUsage
from gputune.launch import values
from gputune.proving import trials
from gputune.sweep import patch, result
from gputune.sweep.batches import AUTO
from gputune.sweep.script import script_of
from gputune.sweep.sweeping import Wishes, sweep

MOST_SIZES = 16

HELP = f"""{__doc__}
\b
Example:
  gputune sweep-loader train.py --epochs 3
  gputune sweep-loader --batch-sizes auto --budget 2m -m package.train
  gputune sweep-loader -- torchrun --nproc-per-node 2 train.py
"""


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    found = values.seconds(value)
    if found is None:
        raise BadUsage(
            f"{config.origin(ctx, param, value)} is not a time of at least a second", hint="like `60s`, `5m`"
        )
    return found


def _sizes(ctx: click.Context, param: click.Parameter, value: str | None) -> "tuple[int, ...] | str":
    if value is None:
        return ()
    if value.strip() == AUTO:
        return AUTO
    words = [word.strip() for word in value.split(",")]
    if not all(word.isdecimal() and int(word) > 0 for word in words) or len(words) > MOST_SIZES:
        says = f"{config.origin(ctx, param, value)} is no list of batch sizes: numbers above 0, at most {MOST_SIZES}"
        raise BadUsage(says, hint="like `--batch-sizes 8,16,32`, or `--batch-sizes auto`")
    return tuple(dict.fromkeys(int(word) for word in words))


@click.command(short_help="the best loader settings", help=HELP, context_settings={"allow_interspersed_args": False})
@click.option("-m", "--module", metavar="MODULE", envvar=[], help="Run a module, as `python -m MODULE` does.")
@click.option("--python", default="python", show_default=True, help="The interpreter that runs SCRIPT or MODULE.")
@click.option("--batch-sizes", metavar="LIST", callback=_sizes, help="Batch sizes first: `auto`, or like 8,16,32.")
@click.option("--budget", metavar="TIME", callback=_seconds, help="How long it may take at most, like 60s.")
@click.option(
    "--within", metavar="TIME", default="60s", show_default=True, callback=_seconds, help="When the first batch comes."
)
@click.option("--where", metavar="FILE:LINE", default="", help="Which loader.  [default: the most waited for]")
@click.option("--seed", type=int, default=1, show_default=True, help="The seed of torch's random numbers in trials.")
@click.option("--out", metavar="DIR", help="Folder of the trials: new or empty.  [default: gputune-runs/…]")
@click.option("--resume", is_flag=True, help="Go on with the last sweep of this command that was ended.")
@click.option("--restarts", is_flag=True, help="Measure each setting in a start of its own.")
@click.option("--write", metavar="FILE", default="gputune.toml", show_default=True, help="Keep the settings; - for no.")
@click.option("--patch", "as_patch", is_flag=True, help="Print the change of the script as a diff.")
@click.option("--apply", is_flag=True, help="Make that change in the script.")
@click.option("--json", "as_json", is_flag=True, envvar="GPUTUNE_SWEEP_LOADER_JSON", help="Print JSON.")
@click.argument("script", nargs=-1, type=click.UNPROCESSED)
def command(  # noqa: PLR0913 - one parameter an option: click's way
    *,
    script: tuple[str, ...],
    module: str | None,
    python: str,
    batch_sizes: "tuple[int, ...] | str",
    budget: float | None,
    within: float,
    where: str,
    seed: int,
    out: str | None,
    resume: bool,
    restarts: bool,
    write: str,
    as_patch: bool,
    apply: bool,
    as_json: bool,
) -> int:
    asked = script_of(script, module, python)
    if as_patch and as_json:
        raise BadUsage("`--patch` and `--json` both want stdout", hint="ask for one of them; `--apply` goes with both")
    if as_patch or apply:
        patch.check()
    trials.end_with_us()
    found = sweep(
        Wishes(
            script=asked,
            out=out,
            sizes=batch_sizes,
            budget=budget,
            within=within,
            where=where,
            seed=seed,
            resume=resume,
            restarts=restarts,
            write=None if write == "-" else Path(write),
            tell=_tell,
        )
    )
    made = result.document(found)
    if as_json:
        click.echo(result.to_json(made), nl=False)
    else:
        click.echo(result.words(made, asked.name), err=as_patch)
    if found.written:
        _tell(f"written to {found.written}: `gputune run --with {found.written} -- {' '.join(asked.command[:2])} …`")
    if as_patch or apply:
        _patch(patch.of_outcomes(found), apply=apply, shown=as_patch)
    if found.stopped:
        raise KeyboardInterrupt
    return 0


def _patch(change: patch.Change, *, apply: bool, shown: bool) -> None:
    if shown:
        click.echo(change.diff, nl=False)
    if apply:
        change.write()
        _tell(f"changed {change.file}")


def _tell(text: str) -> None:
    click.echo(f"gputune: {text}", err=True)
