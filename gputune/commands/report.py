r"""Show the verdict on a recorded run again, also while it still goes on.

Also on a proof, a sweep, or several processes on one card.

\b
Examples:
  gputune report gputune-runs/20261121-100106-train
  gputune report gputune-runs/20261121-100106-train --html report.html
"""

import os
import shutil
import sys
from pathlib import Path

import click

from gputune import config, opening, packed
from gputune.commands import _documents, _page
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


def _show(words: str, document: bytes, wanted: _documents.Wanted, html: str | None) -> None:
    """Show what is no run of its own: words, unless stdout is to hold something else."""
    if not wanted.stdout and html != _documents.STDOUT:
        click.echo(encodable(words, sys.stdout.encoding))
    wanted.put(document)


def _tell(run: Path, typed: Path, lost: dict[str, str]) -> None:
    """Say on stderr what is not as the reader may think: whose run it is, and what of it could not be read."""
    owner = opening.whose(run)
    if owner:
        click.echo(f"gputune: `{clean(str(typed))}` is {owner}'s", err=True)
    for trouble in _page.troubles(lost):
        click.echo(f"gputune: {clean(trouble, 300)}", err=True)
    if lost and (run / FINDINGS).is_file():
        click.echo(f"gputune: the verdict at the end of the run is in `{clean(str(typed / FINDINGS))}`", err=True)


@click.command(short_help="the verdict on a run, again", help=__doc__)
@click.argument("run", type=click.Path(path_type=Path))
@_documents.options("report", "Print findings.json instead.")
@click.option("--price", metavar="N", callback=_price, help="What a device costs an hour, in any currency.")
@click.option(
    "--html",
    metavar="FILE",
    callback=_page.wanted,
    envvar="GPUTUNE_REPORT_HTML",
    help="Write it as a page into FILE, beside the words; - is stdout.",
)
def command(run: Path, *, wanted: _documents.Wanted, price: float | None, html: str | None) -> None:
    _page.check(html, wanted)
    lean()
    typed, run = run, opening.given(run)
    other = _page.other(run)
    if other is not None:
        _show(other.words, other.document, wanted, html)
        _page.put(html, run, typed)
        return
    together = packed.read(run)
    width = shutil.get_terminal_size().columns
    table = "" if together is None else render_packed(together, width=width, silent=packed.silence(run))
    if together is not None and not (run / RUN).exists():  # it ran in a cluster: nothing else of it was recorded
        _show(table, packed.to_json(together), wanted, html)
        _page.put(html, run, typed)
        return
    failed: dict[str, str] = {}
    lost: dict[str, str] = {}
    verdict = rejudge(run, failed, price=price, way=Way(lost=lost))
    _tell(run, typed, lost)
    for name, why in failed.items():
        click.echo(f"gputune: advisor `{name}` failed ({why})", err=True)
    if wanted.stdout or html == _documents.STDOUT:
        wanted.put(to_json(verdict))
        _page.put(html, run, typed, verdict, _page.troubles(lost))
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
    _page.put(html, run, typed, verdict, _page.troubles(lost))
