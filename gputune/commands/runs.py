"""List the runs that were kept: when, how they ended, how fast they were, what was found, what they take on the disk.

FOLDER is `gputune-runs` by default, or any folder of run folders. --job, --finding and --label choose among them.
--set-label calls a run something, which `gputune compare` takes as well, and which keeps it from --prune (an empty text
takes the label away). --prune removes runs in which nothing was written for so long, with all that lies in their
folders: it asks on a terminal, and wants --yes elsewhere.

"""

import sys
from pathlib import Path
from typing import TypeVar

import click
from click.core import ParameterSource

from gputune.commands import _documents
from gputune.core import config, opening
from gputune.core.errors import BadUsage
from gputune.core.hygiene import clean
from gputune.launch import folders, values
from gputune.report.streams import columns, encodable
from gputune.runs import words
from gputune.runs.chosen import chosen
from gputune.runs.found import listed
from gputune.runs.labels import give
from gputune.runs.pruning import Pruned, old, remove
from gputune.runs.rows import Listed, Row, rows
from gputune.verdict.advised import advisor

T = TypeVar("T")
HELP = f"""{__doc__}
\b
Examples:
  gputune runs --finding few-workers
  gputune runs --set-label gputune-runs/20261121-100106-train baseline
  gputune runs --prune 30d
"""


def _age(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    _typed(ctx, param, value)
    age = None if value is None else values.seconds(value)
    if value is not None and age is None:
        raise BadUsage(f"{config.origin(ctx, param, value)} is not a time of at least a second", hint="`--prune 30d`")
    return age


def _typed(ctx: click.Context, param: click.Parameter, value: T) -> T:
    """Return the value. Raises BadUsage where a file set it: a list would remove what it lists."""
    if ctx.get_parameter_source(str(param.name)) is ParameterSource.DEFAULT_MAP:
        raise BadUsage(
            f"{config.origin(ctx, param, str(value))} is read from the command line only",
            hint="take it out of that file",
        )
    return value


def _known(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    """Refuse what no advisor is named. Raises NoSuchAdvisor."""
    if value is not None:
        advisor(value)
    return value


@click.command(short_help="the runs that were kept: list, label, prune", help=HELP)
@click.argument("folder", required=False, type=click.Path(path_type=Path, readable=False))
@click.option("--job", metavar="ID", help="Only those of this job (Slurm, PBS, torchrun, …).")
@click.option("--finding", metavar="ID", callback=_known, help="Only those in which this was found.")
@click.option("--label", metavar="TEXT", help="Only those that are called so.")
@click.option(
    "--set-label",
    nargs=2,
    type=(click.Path(path_type=Path, readable=False), str),
    metavar="RUN TEXT",
    envvar=[],
    callback=_typed,
    help="Call a run so.",
)
@click.option("--prune", metavar="AGE", callback=_age, envvar=[], help="Remove runs as old as this: `30d`, `12h`.")
@click.option("--yes", is_flag=True, envvar=[], callback=_typed, help="With --prune: do not ask.")
@_documents.options("runs", "Print the list as JSON; with --prune, what was removed.")
def command(  # noqa: PLR0913 - one parameter an option: click's way
    folder: Path | None,
    *,
    job: str | None,
    finding: str | None,
    label: str | None,
    set_label: tuple[Path, str] | None,
    prune: float | None,
    yes: bool,
    wanted: _documents.Wanted,
) -> None:
    if set_label is not None:
        give(_named(set_label[0], folder), set_label[1])
        return
    place = None if folder is None and not Path(folders.RUNS).is_symlink() else _given(folder or Path(folders.RUNS))
    found = chosen(rows(listed(place)), job=job, finding=finding, label=label)
    if prune is None:
        if not wanted.stdout:
            click.echo(encodable(_list(found), sys.stdout.encoding))
        wanted.put(Listed(runs=found))
        return
    done = _prune(found, prune, yes=yes)
    if not wanted.stdout:
        click.echo(words.removed(done))
    wanted.put(done)


def _named(run: Path, folder: Path | None) -> Path:
    """Return the run that was typed: a path, or a name in the folder of runs."""
    inside = (folder or Path(folders.RUNS)) / run
    return inside if not run.exists() and inside.exists() else opening.given(run)


def _given(folder: Path) -> Path:
    """Return the folder that was named, also behind a link of this user's. Raises BadUsage at anybody else's."""
    if folder.is_symlink() and not opening.is_mine(folder):
        raise BadUsage(
            f"`{clean(str(folder))}` is a link of {opening.name_of(folder.lstat().st_uid)}'s",
            hint="name the folder that it leads to",
        )
    return opening.given(folder)


def _list(found: list[Row]) -> str:
    return f"{words.table(found, columns())}\n{words.total(found)}" if found else "no run is like that"


def _prune(found: list[Row], age: float, *, yes: bool) -> Pruned:
    """Remove what is old, if somebody says so. Raises BadUsage where nobody can be asked."""
    going, spared = old(found, age)
    for one in spared:
        click.echo(f"gputune: {words.stays(one)}", err=True)
    if going and not yes:
        click.echo(encodable(words.table(going), sys.stderr.encoding), err=True)
        if not sys.stdin.isatty():
            raise BadUsage(f"nobody can be asked whether {words.total(going)} may go", hint="say it: `--yes`")
        if not click.confirm(f"remove {words.total(going)} with all that is in their folders?", err=True):
            going = []
    return remove(going, spared)
