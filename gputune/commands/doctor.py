"""Tell what can be measured on this machine, and how to get the rest.

Example: gputune doctor --python ~/.venvs/train/bin/python
"""

import click
import msgspec

from gputune import checks
from gputune.hygiene import clean

TEXT = 300  # characters of what the driver or the interpreter said


@click.command(short_help="what can be measured here", help=__doc__)
@click.option("--python", default=checks.PYTHON, show_default=True, help="The interpreter of your training.")
@click.option("--json", "as_json", is_flag=True, envvar="GPUTUNE_DOCTOR_JSON", help="Print JSON.")
def command(python: str, *, as_json: bool) -> None:
    rows = checks.run(checks.Place(python=python))
    if as_json:
        document = {"schema_version": 1, "checks": rows}
        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))
        return
    width = max(len(row.name) for row in rows)
    for row in rows:
        click.echo(f"{row.state:7}  {row.name:{width}}  {clean(row.says, TEXT)}")
        if row.fix and row.state != "ok":
            click.echo(f"{'':7}  {'':{width}}  fix: {clean(row.fix, TEXT)}")
