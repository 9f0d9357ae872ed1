"""Run a training with the loader settings of a file, without an edit of it.

`gputune sweep-loader` writes the file. The settings are changed as the loader is built; CMD keeps its input, output,
exit status and signals, and nothing is measured. Afterwards gputune says on stderr what was changed, and what was not.

Example: gputune run --with gputune.toml -- python train.py
"""

from pathlib import Path

import click

from gputune.core.errors import BadUsage, GputuneError
from gputune.launch.link import PipeEnd
from gputune.sweep import saved_settings


@click.command(
    short_help="with other loader settings", help=__doc__, context_settings={"allow_interspersed_args": False}
)
@click.option("--with", "file", metavar="FILE", default="gputune.toml", show_default=True, help="The settings.")
@click.option("--quiet", is_flag=True, help="Do not say what was changed.")
@click.argument("cmd", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(ctx: click.Context, file: str, cmd: tuple[str, ...], *, quiet: bool) -> int:
    from gputune.watching import running  # noqa: PLC0415 - not for --help

    if not cmd:
        raise BadUsage("no command to run", hint="put it after two dashes: `gputune run -- python train.py`")
    if not isinstance(ctx.obj, PipeEnd):
        raise GputuneError("`run` was called without its supervisor", hint="start it as `gputune run -- CMD`")
    return running.run(cmd, saved_settings.rules(Path(file)), ctx.obj, quiet=quiet)
