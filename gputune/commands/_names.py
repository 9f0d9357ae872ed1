"""Values that name a file or a folder. One without a letter is a mistake (`--out "$UNSET"`), not the current folder."""

from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from gputune.core.errors import BadUsage

NAMES = frozenset({"DIR", "FILE", "PATH", "RUN"})  # metavars of such options


if TYPE_CHECKING:
    Kind = click.ParamType[Any]
else:
    Kind = click.ParamType  # before click 8.2 there is nothing in brackets


class Name(Kind):
    """Refuses a value without a letter, and two dashes in its place; else it is as the type within says."""

    name = "name"

    def __init__(self, within: Kind) -> None:
        self._within = within

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what the type within makes of the value. Raises BadUsage."""
        if value in {"", "--"} and param is not None and ctx is not None:
            is_option = isinstance(param, click.Option)
            what = param.opts[0] if is_option else param.human_readable_name
            rest = " -- python train.py" if ctx.command.name in {"watch", "run"} else ""
            like = f"{ctx.command_path} {what} NAME{rest}" if is_option else f"{ctx.command_path} NAME"
            raise BadUsage(f"`{what}` has no value", hint=f"like `{like}`")
        return self._within.convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return what may follow, as the type within knows it."""
        return self._within.shell_complete(ctx, param, incomplete)


def strict(param: click.Parameter) -> None:
    """Have a parameter refuse an empty name, if it is one that names a file or a folder; once, however often asked."""
    if not isinstance(param.type, Name) and (param.metavar in NAMES or isinstance(param.type, click.Path)):
        param.type = Name(param.type)
