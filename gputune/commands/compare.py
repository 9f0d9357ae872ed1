"""Hold two runs against each other, or two sides of several runs each: speed, settings, ledger and findings.

A and B are run folders, findings.json files, folders of several runs, or labels of runs in `gputune-runs` (`gputune
runs --set-label`). What differs beside the code comes first, and where that is too much nothing is concluded. The
interval holds what lies between runs: several runs a side, made in turn, tell it; for one run a side a stated floor
stands for it.

Status: 0, and 3 with --fail-if-slower where B is slower by more than that for sure; 1 where that cannot be told because
the two are not comparable.
"""

import sys

import click

from gputune.commands import _documents, _kinds
from gputune.comparing.comparison import compare
from gputune.comparing.sides import side
from gputune.comparing.words import words
from gputune.core.errors import TOO_LOW, GputuneError
from gputune.launch import values
from gputune.recording import lean
from gputune.report.streams import columns, encodable

HELP = f"""{__doc__}

\b
Examples:
  gputune compare gputune-runs/20261121-100106-train gputune-runs/20261121-101502-train
  gputune compare before after --fail-if-slower 5%
"""


def _limit(text: str) -> float | None:
    limit = values.share(text)
    return None if limit == 1 else limit


SLOWER = _kinds.read_by(_limit, "is no percentage below 100", "`--fail-if-slower 5%`")


@click.command(short_help="two runs, or sides of several, against each other", help=HELP)
@click.argument("a", type=click.Path(readable=False))
@click.argument("b", type=click.Path(readable=False))
@click.option(
    "--fail-if-slower",
    metavar="PERCENT",
    callback=SLOWER,
    help="Leave 3 if B is slower by this for sure.",
)
@click.option("--anyway", is_flag=True, help="Compare although script, device, ranks or CPUs differ.")
@_documents.options("compare", "Print the comparison as JSON.")
def command(a: str, b: str, *, fail_if_slower: float | None, anyway: bool, wanted: _documents.Wanted) -> int:
    lean()
    found = compare(side(a), side(b), limit=fail_if_slower, anyway=anyway)
    if not wanted.stdout:
        click.echo(encodable(words(found, columns()), sys.stdout.encoding))
    wanted.put(found)
    if found.gate is not None and found.gate.state == "unknown":
        raise GputuneError("the two are not comparable, so that nothing is known of B", hint=found.remedies[0])
    return TOO_LOW if found.gate is not None and found.gate.state == "slower" else 0
