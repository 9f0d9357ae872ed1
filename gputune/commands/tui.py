"""Show this machine and its runs on one screen, or a recorded run.

Without RUN: devices, CPUs, disks and processes of this machine, and the runs that `gputune watch` records on it now.
With RUN: that recording, live or ended; the arrow keys look back in time. With `--nodes` or `--hostfile`: the machines
whose agents answer there (`gputune agent --help`). Nothing is changed by looking. `?` shows the keys.

Example: gputune tui --nodes m8,m9:7071
"""

import shlex
import time
from pathlib import Path

import click
import msgspec
from click.core import ParameterSource

from gputune.commands import _documents, _kinds
from gputune.core import opening
from gputune.core.errors import BadUsage
from gputune.core.hygiene import clean
from gputune.feeds import signalling
from gputune.feeds.rows import Feed, Node, RunRow, Update
from gputune.launch import signals, values
from gputune.tui import terminal

FILE = click.Path(path_type=Path)


class ScreenDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints: the rows of `gputune/feeds/rows.py`."""

    schema_version: int = 1
    nodes: tuple[Node, ...]
    runs: tuple[RunRow, ...]


EVERY = _kinds.read_by(values.seconds, "is not a time of at least a second", "`--every 10s`")


@click.command(short_help="this machine, or a run, on one screen", help=__doc__)
@click.argument("run", required=False, type=click.Path(path_type=Path, readable=False))
@click.option("--nodes", metavar="NODES", multiple=True, help="Addresses of agents, like m8,m9:7071.")
@click.option("--hostfile", metavar="FILE", type=FILE, help="Read them from a file, one a line.")
@click.option("--credentials", metavar="DIR", type=FILE, help="Where they lie.  [default: ~/.config/gputune/agent]")
@click.option(
    "--every", metavar="TIME", default="1s", show_default=True, callback=EVERY, help="How often agents are asked."
)
@click.option("--ascii", "plain", is_flag=True, help="Plain letters only: no blocks, no braille.")
@click.option("--light", is_flag=True, help="Begin with light colours; `t` turns them.")
@click.option(
    "--allow-signals", is_flag=True, help="Let Enter send TERM, KILL, STOP or CONT to processes of runs here."
)
@_documents.options("tui", "Print what is known now, once, instead of a screen.")
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - one parameter an option: click's way
    ctx: click.Context,
    run: Path | None,
    nodes: tuple[str, ...],
    hostfile: Path | None,
    credentials: Path | None,
    every: float,
    *,
    plain: bool,
    light: bool,
    allow_signals: bool,
    wanted: _documents.Wanted,
) -> int:
    typed = {name for name in ctx.params if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    _agree(run, elsewhere=bool(nodes or hostfile), typed=typed, as_json=bool(wanted))
    if not wanted:
        terminal.check(f"`{_typed(run, nodes, hostfile, credentials)} --json` prints what it would show")
    if nodes or hostfile:
        return _elsewhere(nodes, hostfile, credentials, every, plain=plain, light=light, wanted=wanted)
    run = run and opening.given(run)
    shown = "" if run is None else _identity(run)  # what is no run is told before there is a screen
    if wanted:
        wanted.put(_once(_feed(run)))
        return 0
    from gputune.tui.showing import ScreenOptions, show  # noqa: PLC0415 - only where there is a screen
    from gputune.tui.views import PageView  # noqa: PLC0415 - as above

    start = PageView("run", shown) if shown else None
    send = signalling.send if allow_signals and run is None else None
    left = show(lambda: _feed(run), ScreenOptions(start, send, dark=not light, plain=plain))
    if left.death:
        signals.die_of(left.death)
    return 0


def _typed(run: Path | None, nodes: tuple[str, ...], hostfile: Path | None, credentials: Path | None) -> str:
    """Return the command as it was typed, as far as it says what is to be shown."""
    words = ["gputune", "tui", *([] if run is None else [str(run)])]
    words += [word for each in nodes for word in ("--nodes", each)]
    words += [] if hostfile is None else ["--hostfile", str(hostfile)]
    words += [] if credentials is None else ["--credentials", str(credentials)]
    return clean(shlex.join(words), 400)  # characters of a command


def _agree(run: Path | None, *, elsewhere: bool, typed: set[str], as_json: bool) -> None:
    """Refuse what does not go together. Raises BadUsage."""
    if run is not None and elsewhere:
        raise BadUsage("a recording is of one machine", hint="either RUN, or `--nodes` or `--hostfile`")
    if "every" in typed and not elsewhere:
        raise BadUsage("`--every` is for agents on nodes", hint="it goes with `--nodes` or `--hostfile`")
    if "allow_signals" in typed and (run is not None or elsewhere or as_json):
        raise BadUsage(
            "`--allow-signals` is for the processes of this machine, on its screen",
            hint="`gputune tui --allow-signals`, on the machine where they run",
        )


def _elsewhere(  # noqa: PLR0913 - what was asked for, as it was asked
    nodes: tuple[str, ...],
    hostfile: Path | None,
    credentials: Path | None,
    every: float,
    *,
    plain: bool,
    light: bool,
    wanted: _documents.Wanted,
) -> int:
    """Show what agents say; return the status: of `--json` 1 where none of them has answered, as of `gputune nodes`."""
    from gputune.recording import lean  # noqa: PLC0415 - pyarrow comes lean, and only where it is wanted
    from gputune.wire import credentials as own  # noqa: PLC0415 - as above
    from gputune.wire.address import addresses  # noqa: PLC0415 - as above

    places, known = addresses(nodes, hostfile), own.wanted(credentials)
    lean()
    from gputune.nodes.feed import NodesFeed  # noqa: PLC0415 - as above

    feed = NodesFeed(places, known, beat=every, file=hostfile)
    if wanted:
        feed.settle()
        found = _once(feed)
        wanted.put(found)
        return feed.leave(0 if any(node.link == "up" for node in found.nodes) else 1)
    from gputune.tui.showing import ScreenOptions, show  # noqa: PLC0415 - only where there is a screen

    death = show(lambda: feed, ScreenOptions(dark=not light, plain=plain)).death
    feed.leave(0 if not death else 128 + death)
    if death:
        signals.die_of(death)
    return 0


def _identity(run: Path) -> str:
    from gputune.runs.places import identity, recorded_on  # noqa: PLC0415 - not before a screen without a recording

    return identity(run, recorded_on(run))


def _feed(run: Path | None) -> Feed:
    """Return the feed, to be closed by whoever asks it. It is imported when it is made: once there is a screen."""
    if run is None:
        from gputune.feeds.local import LocalFeed  # noqa: PLC0415 - as above

        return LocalFeed()
    from gputune.feeds.recorded import RecordedFeed  # noqa: PLC0415 - as above

    return RecordedFeed(run)


def _once(feed: Feed) -> ScreenDocument:
    """Return everything that the feed knows after two looks at it, and one of every device."""
    from gputune.feeds import once  # noqa: PLC0415 - not before a screen

    nodes: dict[str, Node] = {}
    runs: dict[str, RunRow] = {}

    def take(update: Update) -> Update:
        nodes.update({node.name: node for node in update.nodes})
        runs.update({row.id: row for row in update.runs})
        return update

    try:
        update = take(feed.poll(0))
        here = any(node.link == "local" for node in nodes.values())
        time.sleep(once.LOOK_S if here else 0)
        end = time.monotonic() + once.PATIENCE
        for _ in range(1000):  # polls at the most until all of a recording is read
            update = take(feed.poll(update.until))
            if not update.more and (not here or once.is_whole(nodes.values()) or time.monotonic() > end):
                break
            time.sleep(0 if update.more else once.AGAIN_S)
    finally:
        feed.close()
    return ScreenDocument(nodes=tuple(nodes.values()), runs=tuple(runs.values()))
