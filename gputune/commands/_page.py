"""`--html FILE` of a command that shows what lies in a folder: the same as a page to keep and to send."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gputune.commands import _documents
from gputune.core.errors import BadUsage
from gputune.core.hygiene import clean
from gputune.launch.job import MARK
from gputune.recording.folder import RUN
from gputune.verdict.document import Verdict
from gputune.verdict.packed import FILE as PACKED

if TYPE_CHECKING:
    from gputune.html.renderers import Other

RUNS = (RUN, MARK, PACKED)  # files of which one is in the folder of any run


def wanted(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse a file that cannot be one, and a page that cannot be made, before anything is read."""
    file = _documents.writable(ctx, param, value)
    if file is not None:
        from gputune.html import engine  # noqa: PLC0415 - where a page is asked for

        engine.check()
    return file


def check(file: str | None, documents: _documents.Wanted) -> None:
    """Raise BadUsage where two things are to go to stdout."""
    if file == _documents.STDOUT and documents.stdout:
        raise BadUsage("`--html -` and `--json` are two things on stdout", hint="name a file for one of them")


def put(file: str | None, run: Path, typed: Path, verdict: Verdict | None = None, troubles: Sequence[str] = ()) -> None:
    """Make the page of a folder and write it; nothing where none was asked for. Raises as `gputune.html.kinds.page`."""
    if file is None:
        return
    from gputune.html import kinds, writing  # noqa: PLC0415 - where a page is asked for
    from gputune.recording import lean  # noqa: PLC0415 - as above

    lean()
    made = kinds.page(run, str(typed), verdict, troubles)
    if file == _documents.STDOUT:
        click.echo(made, nl=False)
        return
    writing.put(file, made)
    click.echo(f"gputune: the page is in `{clean(file)}`", err=True)


def other(run: Path) -> "Other | None":
    """Return what is said of a folder that is no run of its own, but what a renderer knows; None of any other."""
    if any((run / name).exists() for name in RUNS):
        return None
    from gputune.html import renderers  # noqa: PLC0415 - a run is shown without it

    return renderers.read(run)


def troubles(lost: Mapping[str, str]) -> list[str]:
    """Return what of a recording could not be read, a sentence each."""
    return [f"`{file}` is damaged ({why}): this verdict is without it" for file, why in lost.items()]
