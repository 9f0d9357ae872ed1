"""Take a recorded run elsewhere: a trace, tables, or the run that its script logs to."""

import errno
import os
from pathlib import Path

import click

from gputune import exporters
from gputune.commands import _documents, _kinds
from gputune.core import config, opening
from gputune.core.errors import BadUsage
from gputune.core.hygiene import clean
from gputune.launch import values
from gputune.recording import lean
from gputune.recording.about import NotARun

ABOUT = "\n".join(f"  {name:<12} {about}" for name, about in exporters.about().items())
HELP = f"""{__doc__}

RUN is the folder of a run, also of one that goes on. Nothing is sent anywhere but where `--to` says:

\b
{ABOUT}

\b
Examples:
  gputune export gputune-runs/20261121-100106-train --to perfetto
  gputune export gputune-runs/20261121-100106-train --to csv --out tables.zip
  gputune export gputune-runs/20261121-100106-train --to mlflow
"""


def _exporter(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value not in exporters.names():
        said = config.origin(ctx, param, value)
        hint = f"`--to` takes {', '.join(exporters.names())}"
        if values.number(value) is not None or values.seconds(value) is not None:
            hint = f"`--from` and `--until {value}` choose a stretch of time; {hint}"
        raise BadUsage(f"{said} is nowhere that a run can be taken to", hint=hint)
    return value


def _moment(text: str) -> float | None:
    """Return a time after the start of the run, in s."""
    return 0.0 if values.number(text.strip()) == 0 else values.seconds(text)


SINCE = _kinds.read_by(_moment, "is no time after the run's start", "`--from 5m`")


@click.command(short_help=__doc__, help=HELP)
@click.argument("run", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--to",
    metavar="NAME",
    required=True,
    callback=_exporter,
    shell_complete=lambda _ctx, _param, begun: [name for name in exporters.names() if name.startswith(begun)],
    help=f"{', '.join(exporters.names())}.",
)
@click.option("--from", "since", metavar="TIME", envvar=[], callback=SINCE, help="Since when after its start: 5m.")
@click.option("--until", metavar="TIME", envvar=[], callback=SINCE, help="Until when.")
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Where to write it.  [default: into RUN]")
@_documents.options("export", "Print where it went as JSON.")
def command(  # noqa: PLR0913 - one parameter an option: click's way
    run: Path, to: str, since: float | None, until: float | None, out: Path | None, *, wanted: _documents.Wanted
) -> None:
    if since is not None and until is not None and since >= until:
        raise BadUsage(f"`--from {since:g}` is not before `--until {until:g}`", hint="like `--from 5m --until 6m`")
    if run.exists() and not run.is_dir():
        raise NotARun(run, os.strerror(errno.ENOTDIR), mistyped=True)
    lean()
    wish = exporters.ExportRequest(
        run=opening.given(run), typed=str(run), say=_say, out=out, since=since, until=until,
    )  # fmt: skip
    sent = exporters.export(to, wish)
    for file, why in sent.lost.items():
        _say(f"`{file}` is damaged ({why}): the export is without it")
    if not wanted.stdout:
        click.echo(clean(sent.where, 1000))
    wanted.put(sent)


def _say(text: str) -> None:
    click.echo(f"gputune: {clean(text, 300)}", err=True)
