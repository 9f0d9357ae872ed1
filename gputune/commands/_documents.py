"""`--json` and `--json-file FILE` of every command whose output is gputune's own: its document, for a program."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import click

from gputune.core import config, replacing
from gputune.core.errors import BadUsage, GputuneError
from gputune.verdict.document import to_json

STDOUT = "-"  # as a FILE
Command = Callable[..., Any]


class Wanted(NamedTuple):
    """Where the document is to go: to stdout, in place of words, and into a file beside them. False where nowhere."""

    stdout: bool = False
    file: str = ""

    def __bool__(self) -> bool:
        return self.stdout or bool(self.file)

    def put(self, document: object) -> None:
        """Write it: bytes as they are, all else as indented JSON. Raises GputuneError where FILE takes none."""
        if not self:
            return
        data = document if isinstance(document, bytes) else to_json(document)
        if self.stdout:
            click.echo(data, nl=False)
        why = replacing.put(self.file, data) if self.file else ""
        if why:
            raise GputuneError(why, hint="look at its rights, and at the disk that it is on")


def options(command: str, text: str) -> Callable[[Command], Command]:
    """Give a command both options, which it gets as one, `wanted`; `text` is what `--json` does there.

    `GPUTUNE_JSON` is none of `--json`'s variables: it names a file, for `watch`.
    """

    def decorate(function: Command) -> Command:
        @functools.wraps(function)
        def called(*args: Any, as_json: bool, json_file: str | None, **rest: Any) -> Any:
            wanted = Wanted(as_json or json_file == STDOUT, "" if json_file in {None, STDOUT} else str(json_file))
            return function(*args, wanted=wanted, **rest)

        variable = f"GPUTUNE_{command.upper().replace('-', '_')}_JSON"
        flag = click.option("--json", "as_json", is_flag=True, envvar=variable, help=text)
        return flag(file_option("Write that JSON into FILE, beside the words.")(called))

    return decorate


def file_option(text: str) -> Callable[[Command], Command]:
    """Give a command `--json-file FILE` alone."""
    return click.option("--json-file", metavar="FILE", callback=writable, help=text)


def writable(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse a name that cannot be that of a file, before anything is measured."""
    if value is None or value == STDOUT:
        return value
    why = "is no name" if not value else replacing.unfit(value)
    if why:
        raise BadUsage(f"{config.origin(ctx, param, value)} {why}", hint="name a file, or `-` for stdout")
    return value
