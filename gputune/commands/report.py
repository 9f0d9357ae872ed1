"""Show the verdict on a recorded run again, also while it still goes on.

Example: gputune report gputune-runs/20261121-100106-train
"""

import os
import shutil
import sys
from pathlib import Path

import click

from gputune import config, opening, packed
from gputune.commands import _documents
from gputune.errors import BadUsage
from gputune.hygiene import clean
from gputune.launch import values
from gputune.recording import lean
from gputune.recording.folder import FINDINGS, RUN
from gputune.rejudging import Way, rejudge
from gputune.report.packed import render as render_packed
from gputune.report.streams import colour_wanted, encodable
from gputune.report.terminal import render
from gputune.verdict import to_json


def _price(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    price = None if value is None else values.price(value)
    if value is not None and price is None:
        raise BadUsage(f"{config.origin(ctx, param, value)} is no price", hint="like `--price 2.50`")
    return price


def _tell(run: Path, typed: Path, lost: dict[str, str]) -> None:
    """Say on stderr what is not as the reader may think: whose run it is, and what of it could not be read."""
    owner = opening.whose(run)
    if owner:
        click.echo(f"gputune: `{clean(str(typed))}` is {owner}'s", err=True)
    for file, why in lost.items():
        click.echo(f"gputune: `{clean(file)}` is damaged ({clean(why)}): this verdict is without it", err=True)
    if lost and (run / FINDINGS).is_file():
        click.echo(f"gputune: the verdict at the end of the run is in `{clean(str(typed / FINDINGS))}`", err=True)


@click.command(short_help="the verdict on a run, again", help=__doc__)
@click.argument("run", type=click.Path(path_type=Path))
@_documents.options("report", "Print findings.json instead.")
@click.option("--price", metavar="N", callback=_price, help="What a device costs an hour, in any currency.")
def command(run: Path, *, wanted: _documents.Wanted, price: float | None) -> None:
    lean()
    typed, run = run, opening.given(run)
    together = packed.read(run)
    width = shutil.get_terminal_size().columns
    table = "" if together is None else render_packed(together, width=width, silent=packed.silence(run))
    if together is not None and not (run / RUN).exists():  # it ran in a cluster: nothing else of it was recorded
        if not wanted.stdout:
            click.echo(encodable(table, sys.stdout.encoding))
        wanted.put(packed.to_json(together))
        return
    failed: dict[str, str] = {}
    lost: dict[str, str] = {}
    verdict = rejudge(run, failed, price=price, way=Way(lost=lost))
    _tell(run, typed, lost)
    for name, why in failed.items():
        click.echo(f"gputune: advisor `{name}` failed ({why})", err=True)
    if wanted.stdout:
        wanted.put(to_json(verdict))
        return
    # A run that goes on is not to be run again beside itself; several tasks at once are no run to prove a change by.
    over = verdict.exit_code is not None and together is None
    text = render(
        verdict,
        width=width,
        colour=colour_wanted(os.environ, terminal=sys.stdout.isatty()),
        run_folder=str(typed) if over else None,
        again=True,
    )
    if table:
        text += f"\n\n{table}"
    click.echo(encodable(text, sys.stdout.encoding), color=True)
    wanted.put(to_json(verdict))
