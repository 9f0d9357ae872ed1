"""Print the script that completes gputune's commands and options in a shell."""

import click

HELP = f"""{__doc__}

\b
Example, for bash (zsh and fish alike):
  gputune completion bash >> ~/.bashrc
"""


@click.command(short_help=__doc__, help=HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print click's own script for that shell."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - for this command only

    maker = get_completion_class(shell)
    if maker is not None:
        click.echo(maker(ctx.find_root().command, {}, "gputune", "_GPUTUNE_COMPLETE").source())
