"""Print this machine, or what the agents of several say, in a line a device; or keep what they record."""

import math
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from gputune.commands import _documents, _kinds
from gputune.core.errors import BadUsage
from gputune.core.figures import number, size
from gputune.core.hygiene import clean
from gputune.feeds.rows import Node, RunRow, Update
from gputune.nodes.glance import ProcessColumns, render
from gputune.recording import lean
from gputune.report import streams
from gputune.wire import credentials as own
from gputune.wire.address import Address, addresses

if TYPE_CHECKING:
    from gputune.nodes.feed import NodesFeed  # it imports pyarrow
    from gputune.wire.keeping import NodeKeeper  # as above

HELP = f"""{__doc__}

NODES are addresses of agents: `m8` (port 7070), `m9:7071`, `unix:/path`, each also as `NAME=ADDRESS`. Without any it is
this machine: by its agent, or read here where none serves. The status is 0 if at least one of them answered. `gputune
tui` shows the same as a screen. With `--run` ssh types a command to each, as you would: agents run none.

\b
Examples:
  gputune nodes -cup -i 1
  gputune nodes m8,m9:7071 --json
  gputune nodes --hostfile hosts --keep recordings --for 10m
  gputune nodes m8,m9 --run 'nvidia-smi -L'
"""
FILE = click.Path(path_type=Path)
LOOK_S = 0.5  # s between looks at how those that keep are doing
WIDTH = 24  # characters of a name
CLEAR, REST, BELOW = "\x1b[H", "\x1b[K", "\n\x1b[J"  # to the top of a terminal; what is left of a line, and below it
COLUMNS = ((WIDTH, "node"), (8, "link"))  # flush left; those that follow, flush right
NUMBERS = ((7, "devices"), (5, "busy"), (19, "memory"), (7, "power"), (9, "cpus"), (5, "wait"), (9, "samples/s"))
HEAD = " ".join([*(f"{name:{n}}" for n, name in COLUMNS), *(f"{name:>{n}}" for n, name in NUMBERS), " finding"])


class NodesQuery(NamedTuple):
    """Asks for everything; and returns a status once what it has started has ended."""

    ask: "Callable[[], NodesDocument]"
    leave: Callable[[int], int]


class NodesDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints; the rows are those of gputune/feeds/rows.py."""

    schema_version: int = 1
    nodes: list[Node]
    runs: list[RunRow]
    clocks: dict[str, dict[str, float]]


@click.command(short_help=__doc__, help=HELP)
@click.argument("nodes", nargs=-1)
@click.option("--hostfile", "file", metavar="FILE", type=FILE, help="Read addresses from a file, one a line.")
@click.option("--credentials", metavar="DIR", type=FILE, help="Where they lie.  [default: ~/.config/gputune/agent]")
@_documents.options("nodes", "Print JSON.")
@click.option("--keep", metavar="DIR", type=FILE, envvar=[], help="Keep what the nodes record of themselves, in DIR.")
@click.option("--run", "typed", metavar="CMD", envvar=[], help="Type CMD to all nodes, over your own ssh.")
@click.option("-c", "--show-cmd", "cmd", is_flag=True, help="Say of each process what was typed.")
@click.option("-u", "--show-user", "user", is_flag=True, help="Say of each process whose it is.")
@click.option("-p", "--show-pid", "pid", is_flag=True, help="Say of each process its pid.")
@click.option("-i", "--interval", metavar="TIME", envvar=[], callback=_kinds.seconds, help="Print it anew so often.")
@click.option("--watch", is_flag=True, envvar=[], help="Print it anew once a second.")
@click.option("--for", "duration", metavar="TIME", envvar=[], callback=_kinds.seconds, help="With --keep: how long.")
def command(  # noqa: PLR0913, PLR0917 - one parameter an option: click's way
    nodes: tuple[str, ...],
    file: Path | None,
    credentials: Path | None,
    keep: Path | None,
    duration: float | None,
    interval: float | None,
    typed: str | None,
    *,
    cmd: bool,
    user: bool,
    pid: bool,
    watch: bool,
    wanted: _documents.Wanted,
) -> int:
    if typed is not None:
        return _type(nodes, file, typed, alone=not (wanted or keep or duration or interval or watch))
    places = _places(nodes, file)
    known = own.wanted(credentials)
    interval = interval or (1.0 if watch else None)
    if interval is not None and (wanted or keep is not None):
        raise BadUsage("`--watch` and `--interval` print words, and for ever", hint="`--json` alone prints once")
    if keep is not None and wanted:
        raise BadUsage("`--keep` keeps recordings, and makes no JSON", hint="`gputune nodes --json` says how they are")
    if keep is not None:
        return _keep(places, known, keep, duration)
    if duration is not None:
        raise BadUsage("`--for` goes with `--keep`", hint="`gputune nodes m8 --keep DIR --for 10m`")
    wishes = ProcessColumns(command=cmd, user=user, pid=pid, colour=_colour())
    here = not (nodes or file)
    if interval is not None:
        return _watch(places, known, wishes, interval, here=here)
    glance = wishes if here or cmd or user or pid else None
    return _show(places, known, wanted, glance, here=here)


def _type(nodes: tuple[str, ...], file: Path | None, typed: str, *, alone: bool) -> int:
    """Type a command to all nodes: a thing by itself, and not to be had without their names."""
    if not alone:
        raise BadUsage("`--run` only types a command", hint="leave the other options out")
    if not (nodes or file):
        raise BadUsage("`--run` needs the nodes to type to", hint="`gputune nodes m8,m9 --run 'nvidia-smi -L'`")
    from gputune.nodes.typed import run  # noqa: PLC0415 - not for --help

    return run(addresses(nodes, file), typed)


def _places(nodes: tuple[str, ...], file: Path | None) -> list[Address]:
    if nodes or file:
        return addresses(nodes, file)
    from gputune.wire import places as own_places  # noqa: PLC0415 - not for --help

    return [Address(own_places.host(), path=str(own_places.socket()), named=False)]


def _show(
    places: list[Address],
    known: own.Credentials | None,
    wanted: _documents.Wanted,
    glance: ProcessColumns | None,
    *,
    here: bool,
) -> int:
    with _asked(places, known, here=here) as asked:
        found = asked.ask()
    if not wanted.stdout:
        table = [HEAD, *map(_line, found.nodes)] if glance is None else [render(found.nodes, found.runs, glance)]
        click.echo("\n".join(table))
    wanted.put(found)
    return asked.leave(_left(found))


def _left(found: NodesDocument) -> int:
    return 0 if any(node.link in {"up", "local"} for node in found.nodes) else 1


def _watch(
    places: list[Address], known: own.Credentials | None, wishes: ProcessColumns, interval: float, *, here: bool
) -> int:
    """Print it again and again, on a terminal in its place, until a signal."""
    lean()
    from gputune.nodes.agent import signals  # noqa: PLC0415 - pyarrow comes lean, and not for --help

    terminal = sys.stdout.isatty()
    with signals() as wakeup, _asked(places, known, here=here) as asked:
        left = False
        while not left:
            due = time.monotonic() + interval
            found = asked.ask()
            text = render(found.nodes, found.runs, wishes)
            if terminal:
                text = CLEAR + text.replace("\n", f"{REST}\n") + REST + BELOW
            click.echo(text)
            left = bool(select.select([wakeup], [], [], max(0.0, due - time.monotonic()))[0])
    return asked.leave(_left(found))


@contextmanager
def _asked(places: list[Address], known: own.Credentials | None, *, here: bool) -> Iterator["NodesQuery"]:
    """Give what asks all of them; a machine `here` is read here where no agent serves it."""
    if here and not Path(places[0].path).exists():
        from gputune.feeds.once import reading  # noqa: PLC0415 - not for --help

        with reading() as look:
            yield NodesQuery(lambda: _document(look(), {}), int)
        return
    lean()
    from gputune.nodes.feed import NodesFeed  # noqa: PLC0415 - pyarrow comes lean, and not for --help

    feed = NodesFeed(places, known)
    try:
        feed.settle()
        if here and not any(each.answers for each in feed.rounds):  # a socket that its agent has left behind
            with _asked([replace(places[0], path="/nonexistent")], known, here=True) as asked:
                yield NodesQuery(asked.ask, feed.leave)
        else:
            yield NodesQuery(lambda: _document(feed.poll(0), _clocks(feed)), feed.leave)
    finally:
        feed.close()


def _clocks(feed: "NodesFeed") -> dict[str, dict[str, float]]:
    asked = (each for each in feed.rounds if each.answers)
    return {each.name: {"offset_s": each.clock[0], "uncertain_s": each.clock[1]} for each in asked}


def _document(update: Update, clocks: dict[str, dict[str, float]]) -> NodesDocument:
    nodes = sorted(update.nodes, key=lambda node: node.name)
    return NodesDocument(nodes=nodes, runs=sorted(update.runs, key=lambda run: run.id), clocks=clocks)


def _colour() -> bool:
    return streams.colour_wanted(os.environ, terminal=sys.stdout.isatty())


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
        f"{'-' if node.cpu is None or node.cpus is None else f'{node.cpu:.3g}/{node.cpus:.3g}':>9}",
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
    from gputune.wire.keeping import keepers  # noqa: PLC0415 - as above

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


def _wait(threads: "list[NodeKeeper]", wakeup: int, duration: float | None) -> None:
    """Wait for a signal, for so many s, or until all have ended; say once of each node why nothing has come of it."""
    from gputune.wire.keeping import UNASKED  # noqa: PLC0415 - pyarrow comes lean, and not for --help

    until = math.inf if duration is None else time.monotonic() + duration
    told = set[str]()
    while (left := until - time.monotonic()) > 0:
        if select.select([wakeup], [], [], min(left, LOOK_S))[0] or not any(thread.is_alive() for thread in threads):
            return
        for thread in threads:
            name = thread.address.name
            if thread.trouble not in {"", UNASKED} and not thread.reader.rows and name not in told:
                told.add(name)
                click.echo(f"{clean(name)}: {thread.trouble}", err=True)
