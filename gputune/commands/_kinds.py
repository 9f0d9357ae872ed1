"""What the value of an option must be: read and refused in one way by every command."""

from collections.abc import Callable
from typing import Any

import click

from gputune.core import config
from gputune.core.errors import BadUsage
from gputune.core.hygiene import clean
from gputune.launch import values

Callback = Callable[[click.Context, click.Parameter, str | None], Any]


def read_by(read: Callable[[str], object], says: str, like: str = "") -> Callback:
    """Return the callback of an option whose value `read` returns, None for what cannot be meant.

    It raises BadUsage then: the value as it was typed, what it `says` of it, and one that is `like` it should be.
    """

    def callback(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
        found = None if value is None else read(value)
        if value is not None and found is None:
            shown = config.origin(ctx, param, clean(value, 60))
            raise BadUsage(f"{shown} {says}", hint=f"like {like or f'`{param.opts[-1]} 60s`'}")
        return found

    return callback


seconds = read_by(values.seconds, "is not a time of at least a second")
