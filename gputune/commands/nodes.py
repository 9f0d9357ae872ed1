"""Print what the agents of several machines say, or keep what they record."""

import math
import select
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from gputune import config
from gputune.commands import _documents
from gputune.errors import BadUsage
from gputune.figures import number, size
from gputune.hygiene import clean
from gputune.launch import values
from gputune.recording import lean
from gputune.scene import Node, RunRow
from gputune.wire import credentials as own
from gputune.wire.address import Address, addresses

if TYPE_CHECKING:
    from gputune.nodes.keeping import Keeper  # it imports pyarrow

HELP = f"""{__doc__}

NODES are addresses of agents: `m8` (port 7070), `m9:7071`, `unix:/path`, each also as `NAME=ADDRESS`. Without any it is
the agent of this machine. The status is 0 if at least one of them answered. `gputune tui` shows the same as a screen.

\b
Examples:
  gputune nodes m8,m9:7071 --json
  gputune nodes --hostfile hosts --keep recordings --for 10m
"""
FILE = click.Path(path_type=Path)
LOOK = 0.5  # s between looks at how those that keep are doing
WIDTH = 24  # characters of a name
COLUMNS = ((WIDTH, "node"), (8, "link"))  # flush left; those that follow, flush right
NUMBERS = ((7, "devices"), (5, "busy"), (19, "memory"), (7, "power"), (5, "wait"), (9, "samples/s"))
HEAD = " ".join([*(f"{name:{n}}" for n, name in COLUMNS), *(f"{name:>{n}}" for n, name in NUMBERS), " finding"])


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints; the rows are those of gputune/scene.py."""

    schema_version: int = 1
    nodes: list[Node]
    runs: list[RunRow]
    clocks: dict[str, dict[str, float]]


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    found = None if value is None else values.seconds(value)
    if value is not None and found is None:
        raise BadUsage(
            f"{config.origin(ctx, param, value)} is not a time of at least a second", hint="like `--for 60s`"
        )
    return found


@click.command(short_help=__doc__, help=HELP)
@click.argument("nodes", nargs=-1)
@click.option("--hostfile", "file", metavar="FILE", type=FILE, help="Read addresses from a file, one a line.")
@click.option("--credentials", metavar="DIR", type=FILE, help="Where they lie.  [default: ~/.config/gputune/agent]")
@_documents.options("nodes", "Print JSON.")
@click.option("--keep", metavar="DIR", type=FILE, envvar=[], help="Keep what the nodes record of themselves, in DIR.")
@click.option("--for", "duration", metavar="TIME", envvar=[], callback=_seconds, help="With --keep: how long.")
def command(  # noqa: PLR0913 - one parameter an option: click's way
    nodes: tuple[str, ...],
    file: Path | None,
    credentials: Path | None,
    keep: Path | None,
    duration: float | None,
    *,
    wanted: _documents.Wanted,
) -> int:
    places = _places(nodes, file)
    known = own.wanted(credentials)
    if keep is not None and wanted:
        raise BadUsage("`--keep` keeps recordings, and makes no JSON", hint="`gputune nodes --json` says how they are")
    if keep is not None:
        return _keep(places, known, keep, duration)
    if duration is not None:
        raise BadUsage("`--for` goes with `--keep`", hint="`gputune nodes m8 --keep DIR --for 10m`")
    return _show(places, known, wanted)


def _places(nodes: tuple[str, ...], file: Path | None) -> list[Address]:
    if nodes or file:
        return addresses(nodes, file)
    from gputune.nodes import places as own_places  # noqa: PLC0415 - not for --help

    return [Address(own_places.host(), path=str(own_places.socket()), named=False)]


def _show(places: list[Address], known: own.Credentials | None, wanted: _documents.Wanted) -> int:
    lean()
    from gputune.nodes.feed import NodesFeed  # noqa: PLC0415 - pyarrow comes lean, and not for --help

    feed = NodesFeed(places, known)
    try:
        feed.settle()
        update = feed.poll(0)
        clocks = {
            each.name: {"offset_s": each.clock[0], "uncertain_s": each.clock[1]}
            for each in feed.rounds
            if each.answers
        }
    finally:
        feed.close()
    rows = sorted(update.nodes, key=lambda node: node.name)
    if not wanted.stdout:
        click.echo("\n".join([HEAD, *map(_line, rows)]))
    wanted.put(Document(nodes=rows, runs=sorted(update.runs, key=lambda run: run.id), clocks=clocks))
    return feed.leave(0 if any(node.link == "up" for node in rows) else 1)


def _line(node: Node) -> str:
    """Return a node as a line. Percent and GiB appear here, where a person reads them."""
    used = sum(device.memory_used or 0.0 for device in node.devices)
    total = sum(device.memory_total or 0.0 for device in node.devices)
    gain = f" {node.gain:.2g}x" if node.gain else ""
    words = [
        f"{clean(node.name, WIDTH):{WIDTH}}",
        f"{node.link:8}",
        f"{len(node.devices):7}",
        f"{_share(node.busy):>5}",
        f"{f'{size(used)} of {size(total)}' if total else '-':>19}",
        f"{'-' if node.power is None else f'{node.power:.0f} W':>7}",
        f"{_share(node.wait):>5}",
        f"{'-' if node.rate is None else number(node.rate):>9}",
        f" {clean(node.why or f'{node.finding}{gain}')}",
    ]
    return " ".join(words).rstrip()


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _keep(places: list[Address], known: own.Credentials | None, folder: Path, duration: float | None) -> int:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadUsage(f"`{clean(str(folder))}` is not an empty folder", hint="name a new folder: `--keep DIR`")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lean()
    from gputune.nodes.agent import signals  # noqa: PLC0415 - pyarrow comes lean, and not for --help
    from gputune.nodes.keeping import keepers  # noqa: PLC0415 - as above

    threads = keepers(places, known, folder)
    with signals() as wakeup:
        for thread in threads:
            thread.start()
        _wait(threads, wakeup, duration)
        for thread in threads:
            thread.end()
        for thread in threads:
            thread.join()
    for thread in threads:
        trouble = f": {thread.trouble}" if thread.trouble else ""
        click.echo(f"{clean(thread.address.name)}: {thread.reader.rows} rows{trouble}", err=True)
    return 0 if any(thread.reader.rows for thread in threads) else 1


def _wait(threads: "list[Keeper]", wakeup: int, duration: float | None) -> None:
    """Wait for a signal, for so many s, or until all have ended; say once of each node why nothing has come of it."""
    from gputune.nodes.keeping import UNASKED  # noqa: PLC0415 - pyarrow comes lean, and not for --help

    until = math.inf if duration is None else time.monotonic() + duration
    told = set[str]()
    while (left := until - time.monotonic()) > 0:
        if select.select([wakeup], [], [], min(left, LOOK))[0] or not any(thread.is_alive() for thread in threads):
            return
        for thread in threads:
            name = thread.address.name
            if thread.trouble not in {"", UNASKED} and not thread.reader.rows and name not in told:
                told.add(name)
                click.echo(f"{clean(name)}: {thread.trouble}", err=True)
