"""Tell what can be measured on this machine, or how fast the link between two nodes is."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from gputune.commands import _documents
from gputune.core.errors import BadUsage
from gputune.core.figures import size
from gputune.core.hygiene import SENTENCE, clean
from gputune.host import checks

if TYPE_CHECKING:
    from gputune.nodes.network import Report  # it imports pyarrow

HELP = f"""{__doc__}

With `--network` the agent at A measures its link to the one at B, both ways, over TLS and with their token: some
seconds of all the traffic that the link carries. What the ranks of a run exchange in a step is held against it: of runs
that the two agents show, or of recordings named with `--run`.

\b
Examples:
  gputune doctor --python ~/.venvs/train/bin/python
  gputune doctor --network m8 m9 --run gputune-runs/20261121-100106-train
"""
FILE = click.Path(path_type=Path)
FIX = {
    "link": "send less (bf16_compress_hook, no_sync()), or over a faster link",
    "slower": "look at the interface that they take (NCCL_SOCKET_IFNAME, GLOO_SOCKET_IFNAME), and at their CPUs",
}


@click.command(short_help="what can be measured here", help=HELP)
@click.option("--python", default=checks.PYTHON, show_default=True, help="The interpreter of your training.")
@click.option(
    "--network", nargs=2, metavar="A B", envvar=[], help="Have agent A measure its link to agent B, for some seconds."
)
@click.option(
    "--run", "runs", metavar="RUN", type=FILE, multiple=True, envvar=[],
    help="With --network: hold the exchange of this recorded run against the link.",
)  # fmt: skip
@click.option("--credentials", metavar="DIR", type=FILE, help="Where they lie.  [default: ~/.config/gputune/agent]")
@_documents.options("doctor", "Print JSON.")
@click.pass_context
def command(  # noqa: PLR0913 - one parameter an option: click's way
    ctx: click.Context,
    /,
    python: str,
    network: tuple[str, str] | None,
    runs: tuple[Path, ...],
    credentials: Path | None,
    *,
    wanted: _documents.Wanted,
) -> None:
    if network is not None:
        _network(network, runs, credentials, wanted)
        return
    if runs:
        raise BadUsage("`--run` goes with `--network`", hint="`gputune doctor --network m8 m9 --run RUN`")
    if ctx.get_parameter_source("python") is ParameterSource.COMMANDLINE and shutil.which(python) is None:
        raise BadUsage(
            f"`{clean(python)}` was not found", hint="like `gputune doctor --python ~/.venvs/train/bin/python`"
        )
    rows = checks.run(checks.Roots(python=python))
    if not wanted.stdout:
        _print(rows)
    wanted.put({"schema_version": 1, "checks": rows})


def _network(
    ends: tuple[str, str], runs: tuple[Path, ...], credentials: Path | None, wanted: _documents.Wanted
) -> None:
    from gputune.recording import lean  # noqa: PLC0415 - pyarrow comes lean, and not for the other checks
    from gputune.wire import credentials as own  # noqa: PLC0415 - as above
    from gputune.wire.address import parse  # noqa: PLC0415 - as above

    source, target = map(parse, ends)
    known = own.wanted(credentials)
    lean()
    from gputune.nodes.network import between  # noqa: PLC0415 - as above

    report = between(source, target, known, runs)
    if not wanted.stdout:
        _print(_rows(report))
        for note in report.notes:
            click.echo(f"gputune: {note}", err=True)
    wanted.put(report)


def _rows(report: "Report") -> list[checks.Check]:
    """Return the link and what runs make of it as rows. MB/s and ms appear here, where a person reads them."""
    link = report.link
    there, back = _pace(link.sent, at_least=link.sent_at_least), _pace(link.received, at_least=link.received_at_least)
    ends = f"{clean(report.source)} to {clean(report.target)}"
    answer = f"{link.answer * 1e3:.2g} ms there and back, {link.answer_least * 1e3:.2g} ms at the least"
    return [
        checks.Check("link", "ok", f"{ends}: {there}, and back {back} ({link.streams} connections at once, TLS)"),
        checks.Check("latency", "ok", f"{answer} (TLS and Python at both ends included)"),
        *(
            checks.Check(
                clean(each.exchange.run), "limited" if each.told in FIX else "ok", each.says, FIX.get(each.told, "")
            )
            for each in report.exchanges
        ),
    ]


def _pace(rate: float, *, at_least: bool) -> str:
    return f"{'at least ' if at_least else ''}{size(rate)}/s"


def _print(rows: list[checks.Check]) -> None:
    width = max(len(row.name) for row in rows)
    for row in rows:
        click.echo(f"{row.state:7}  {row.name:{width}}  {clean(row.says, SENTENCE)}")
        if row.fix and row.state != "ok":
            click.echo(f"{'':7}  {'':{width}}  fix: {clean(row.fix, SENTENCE)}")
