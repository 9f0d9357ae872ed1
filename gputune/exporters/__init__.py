"""Where a recorded run can be taken to: a file an exporter, found by its name. Nothing is sent unless it is asked for.

An exporter is `gputune/exporters/NAME.py` with

    TAKES = frozenset({"out"})       which of `out` and `stretch` of a wish it has a use for
    NEEDS = ("wandb",)               what must be installed beside gputune, as it is imported; () nothing
    def export(wish: Wish) -> Sent   raises GputuneError where it cannot

and a docstring whose first line is its help. Files that begin with `_` are helpers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import msgspec

from gputune.core import plugins
from gputune.core.errors import BadUsage, GputuneError

ROOM = "gputune.exporters"
OPTIONS = {"out": "--out", "stretch": "--from and --until"}  # what a wish may hold beside the run, as it is typed


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What is to be exported. `stretch`: from and to, s after the run's start; None where nothing was said.

    `say` takes sentences for whoever asked. `run` is the run's folder and `typed` what the user calls it. `own`: it was
    recorded just now, by us; any other may say what somebody else has written into it.
    """

    run: Path
    typed: str
    say: Callable[[str], None]
    out: Path | None = None
    since: float | None = None
    until: float | None = None
    own: bool = False


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints: where the run went. `where` is a file, a folder, or what a tracker calls its run."""

    schema_version: int = 1
    to: str
    where: str
    from_s: float | None = None
    to_s: float | None = None
    lost: dict[str, str] = {}


def names() -> tuple[str, ...]:
    """Return what there is to export to; nothing is imported for that."""
    return plugins.names(ROOM)


def about() -> dict[str, str]:
    """Return what each of them is, in a line; as above."""
    folder = Path(__file__).parent
    return {name: _first_line(folder / f"{name}.py") for name in names()}


def _first_line(file: Path) -> str:
    with file.open(encoding="utf-8") as lines:
        return lines.readline().strip().strip('"').rstrip(".")


def lacking(name: str) -> str:
    """Return which package an exporter lacks, "" where none. It is imported for that, and its package is not."""
    return next((package for package in plugins.load(ROOM, name).NEEDS if find_spec(package) is None), "")


def export(name: str, wish: ExportRequest) -> Sent:
    """Take a run there. Raises BadUsage for what it has no use for, GputuneError where it cannot be done."""
    exporter = plugins.load(ROOM, name)
    given = {"out": wish.out is not None, "stretch": (wish.since, wish.until) != (None, None)}
    _check(name, [option for option, is_given in given.items() if is_given and option not in exporter.TAKES])
    package = lacking(name)
    if package:
        raise Missing(name, package)
    sent: Sent = exporter.export(wish)
    return sent


def _check(name: str, refused: Sequence[str]) -> None:
    if refused:
        says = f"`--to {name}` has no use for {' and '.join(OPTIONS[option] for option in refused)}"
        raise BadUsage(says, hint=f"`gputune export RUN --to {name}` without it")


class Missing(GputuneError):  # noqa: N818 - named for what happened
    """The package that speaks to a tracker is not installed where gputune is."""

    def __init__(self, name: str, package: str) -> None:
        import sys  # noqa: PLC0415 - only where something is missing

        top = package.partition(".")[0]
        says = f"nothing goes to {name}: the package `{top}` is not installed beside gputune"
        super().__init__(says, hint=f"{sys.executable} -m pip install {top}")
