"""Print what an advisor looks for, why it matters and what to do about it.

Example: gputune explain few-workers
"""

import inspect

import click
import msgspec

from gputune import rooms
from gputune.advised import ROOM, advisor


@click.command(short_help="what a finding means", help=__doc__)
@click.argument("finding", required=False)
@click.option("--list", "every", is_flag=True, help="List all findings, with one line each.")
@click.option("--json", "as_json", is_flag=True, envvar="GPUTUNE_EXPLAIN_JSON", help="Print JSON.")
def command(finding: str | None, *, every: bool, as_json: bool) -> None:
    if every or finding is None:
        said = {rooms.identity(name): documentation(name) for name in rooms.names(ROOM)}
        lines = {identity: text.partition("\n")[0] for identity, text in said.items()}
        width = max(map(len, lines), default=0)
        click.echo(_json(lines) if as_json else "\n".join(f"{i:{width}}  {line}" for i, line in lines.items()))
        return
    name = advisor(finding)
    text = documentation(name)
    click.echo(_json({rooms.identity(name): text}) if as_json else text)


def documentation(name: str) -> str:
    """Return an advisor's documentation, which is its module's docstring."""
    return inspect.getdoc(rooms.load(ROOM, name)) or ""


def _json(findings: dict[str, str]) -> str:
    document = {"schema_version": 1, "findings": [{"id": i, "says": text} for i, text in findings.items()]}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
