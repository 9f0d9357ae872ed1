"""Show the verdict on a recorded run again, also while it still goes on.

Also on a proof, a sweep, or several processes on one card. Of a run that has ended, the verdict that was kept with it
is shown at once, if this version of gputune has given it. What was recorded is judged anew with `--again`, and where
there is no such verdict; a long run takes its time then.
"""

import os
import shutil
import sys
from pathlib import Path

import click

from gputune.commands import _documents, _kinds, _page
from gputune.core import opening
from gputune.core.errors import GputuneError
from gputune.core.hygiene import clean
from gputune.feeds.rows import harmless
from gputune.launch import values
from gputune.recording.about import read
from gputune.recording.folder import FINDINGS, RUN
from gputune.report.kept import ours
from gputune.report.packed import render as render_packed
from gputune.report.streams import colour_wanted, encodable
from gputune.report.terminal import render
from gputune.verdict import packed
from gputune.verdict.building import priced, to_json
from gputune.verdict.document import Verdict

HELP = f"""{__doc__}

\b
Examples:
  gputune report gputune-runs/20261121-100106-train
  gputune report gputune-runs/20261121-100106-train --html report.html
"""

PRICE = _kinds.read_by(values.price, "is no price", "`--price 2.50`")


def _show(words: str, document: bytes, wanted: _documents.Wanted, html: str | None) -> None:
    """Show what is no run of its own: words, unless stdout is to hold something else."""
    if not wanted.stdout and html != _documents.STDOUT:
        click.echo(encodable(words, sys.stdout.encoding))
    wanted.put(document)


def _kept(run: Path, price: float | None) -> Verdict | None:
    """Return the verdict that lies in the folder, where this version has given it on the whole of the run."""
    verdict = ours(run)
    return verdict if verdict is None or price is None else priced(verdict, price)


def _anew(run: Path, price: float | None, lost: dict[str, str]) -> Verdict:
    """Judge what was recorded, but for what is damaged (`lost`); a terminal is told how far that has come."""
    from gputune.commands._progress import ReadingProgress  # noqa: PLC0415 - a kept verdict needs none of these
    from gputune.recording import lean  # noqa: PLC0415 - as above
    from gputune.report.rejudging import Way, rejudge  # noqa: PLC0415 - as above

    lean()
    with ReadingProgress(*_clock(run)) as progress:
        return rejudge(run, {}, price=price, way=Way(beside=progress.take, lost=lost))


def _clock(run: Path) -> tuple[int, int]:
    """Return when the run began and ended, ns of its clock; 0 where that is not known."""
    try:
        story = read(run)
    except GputuneError:  # a job whose ranks still go on, or no run at all: who reads it says so
        return 0, 0
    began, ended = (t if isinstance(t, int) else 0 for t in (story.get("started"), story.get("ended")))
    return began, ended


def _unended(run: Path) -> str:
    """Return that a run has no end yet, or never will; "" where it has one."""
    from gputune.runs.one import GOES_ON, KILLED, kept  # noqa: PLC0415 - a run with a kept verdict has its end

    said = {
        GOES_ON: "still goes on: this is its verdict so far",
        KILLED: "has no end: its gputune was killed, or its machine went down. This is the verdict on what is there",
    }
    return said.get(kept(run).state, "")


def _tell(run: Path, typed: Path, lost: dict[str, str], unended: str) -> None:
    """Say on stderr what is not as the reader may think: whose run it is, its end, and what of it could not be read."""
    owner = opening.whose(run)
    if unended:
        click.echo(f"gputune: `{clean(str(typed))}` {unended}", err=True)
    if owner:
        click.echo(f"gputune: `{clean(str(typed))}` is {owner}'s", err=True)
    for trouble in _page.troubles(lost):
        click.echo(f"gputune: {clean(trouble, 300)}", err=True)
    if lost and (run / FINDINGS).is_file():
        click.echo(f"gputune: the verdict at the end of the run is in `{clean(str(typed / FINDINGS))}`", err=True)


@click.command(short_help="the verdict on a run, again", help=HELP)
@click.argument("run", type=click.Path(path_type=Path, readable=False))
@_documents.options("report", "Print findings.json instead.")
@click.option("--again", is_flag=True, help="Judge what was recorded anew, whatever verdict was kept.")
@click.option("--price", metavar="N", callback=PRICE, help="What a device costs an hour, in any currency.")
@click.option(
    "--html",
    metavar="FILE",
    callback=_page.wanted,
    envvar="GPUTUNE_REPORT_HTML",
    help="Write it as a page into FILE, beside the words; - is stdout.",
)
def command(run: Path, *, wanted: _documents.Wanted, price: float | None, again: bool, html: str | None) -> None:
    _page.check(html, wanted)
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
        _show(table, to_json(together), wanted, html)
        _page.put(html, run, typed)
        return
    lost: dict[str, str] = {}
    verdict, unended = None if again else _kept(run, price), ""
    if verdict is None:
        verdict, unended = _anew(run, price, lost), _unended(run)
    _tell(run, typed, lost, unended)
    for name, why in verdict.unjudged.items():
        click.echo(f"gputune: advisor `{clean(name)}` failed ({clean(why)})", err=True)
    if wanted.stdout or html == _documents.STDOUT:
        wanted.put(to_json(verdict))
        _page.put(html, run, typed, verdict, _page.troubles(lost))
        return
    # A run that goes on is not to be run again beside itself; several tasks at once are no run to prove a change by.
    over = verdict.exit_code is not None and together is None
    text = render(
        harmless(verdict),  # what was kept may be anybody's
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
