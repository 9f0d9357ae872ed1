"""Print what an advisor looks for, why it matters and what to do about it.

Example: gputune explain few-workers
"""

import click

from gputune.commands import _documents
from gputune.core import plugins
from gputune.verdict.advised import ROOM, advisor, documentation


@click.command(short_help="what a finding means", help=__doc__)
@click.argument("finding", required=False)
@click.option("--list", "every", is_flag=True, help="List all findings, with one line each.")
@_documents.options("explain", "Print JSON.")
def command(finding: str | None, *, every: bool, wanted: _documents.Wanted) -> None:
    if every or finding is None:
        said = {plugins.identity(name): documentation(name) for name in plugins.names(ROOM)}
        lines = {identity: text.partition("\n")[0] for identity, text in said.items()}
        width = max(map(len, lines), default=0)
        _show(lines, "\n".join(f"{i:{width}}  {line}" for i, line in lines.items()), wanted)
        return
    name = advisor(finding)
    text = documentation(name)
    _show({plugins.identity(name): text}, text, wanted)


def _show(findings: dict[str, str], words: str, wanted: _documents.Wanted) -> None:
    """Print the words, or what each finding says as a document."""
    if not wanted.stdout:
        click.echo(words)
    wanted.put({"schema_version": 1, "findings": [{"id": i, "says": text} for i, text in findings.items()]})
