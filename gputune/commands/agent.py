"""Serve this machine and its runs to a screen elsewhere."""

from pathlib import Path
from typing import Any

import click

from gputune.core.errors import BadUsage
from gputune.recording import lean

HELP = f"""{__doc__}

Without options it serves on a Unix socket that you alone can open. With `--listen` it is reached over the network, with
TLS and a token, which `--init` makes. With a CMD it runs beside that command, once a node, and ends with it.

\b
Examples:
  gputune agent --init
  gputune agent --init --name m8 --name 10.0.0.8
  gputune agent --listen 0.0.0.0:7070
  gputune agent --hosts m8,m9,m10
  gputune agent --metrics
  srun gputune agent --listen 0.0.0.0:7070 -- gputune watch -- python train.py
"""
FILE = click.Path(path_type=Path)


# allow_interspersed_args: what follows the name of the command belongs to the command, as in `watch`
@click.command(short_help=__doc__, help=HELP, context_settings={"allow_interspersed_args": False})
@click.option("--listen", metavar="HOST:PORT", default="", help="Listen on TCP too, with TLS and a token.")
@click.option("--init", is_flag=True, envvar=[], help="Make certificates and a token for nodes called --name, and end.")
@click.option(
    "--name",
    "names",
    metavar="NAME",
    multiple=True,
    envvar=[],
    help="What this node is called; see --init.  [default: its own name and addresses]",
)
@click.option("--each-node", is_flag=True, envvar=[], help="With --init: a key for each --name, like m8,10.0.0.8.")
@click.option("--rotate", is_flag=True, envvar=[], help="With --init: a new token and new keys of all that is there.")
@click.option("--credentials", metavar="DIR", type=FILE, help="Where they lie.  [default: ~/.config/gputune/agent]")
@click.option("--mutual", is_flag=True, help="Let those in alone who have a certificate of the same authority.")
@click.option(
    "--hosts", metavar="HOSTS", multiple=True, envvar=[], help="Run agents there through ssh, without a port."
)
@click.option("--remote", metavar="COMMAND", default="gputune", help="With --hosts: how gputune is called there.")
@click.option(
    "--ray", metavar="ADDRESS", envvar=[], help="Run agents on every node of that Ray cluster (`auto`: ours)."
)
@click.option("--relay", metavar="NODES", multiple=True, envvar=[], help="Speak for these agents instead: one a rack.")
@click.option("--rack", metavar="NAME", default="", help="The rack that it stands in: the screen groups nodes by it.")
@click.option(
    "--metrics",
    metavar="[=HOST:PORT]",
    is_flag=False,
    flag_value="",
    help="Answer Prometheus too, over plain HTTP.  [without a value: 127.0.0.1:7071]",
)
@click.option(
    "--state", metavar="DIR", type=FILE, help="Folder of what it records.  [default: ~/.local/state/gputune/…]"
)
@click.option("--socket", metavar="FILE", type=FILE, help="The Unix socket.  [default: in $XDG_RUNTIME_DIR or /tmp]")
@click.option("--quiet", is_flag=True, help="Do not say where it serves.")
@click.option("--until-eof", is_flag=True, envvar=[], hidden=True, help="End with the standard input.")
@click.option("--announce", metavar="FILE", type=FILE, envvar=[], hidden=True, help="Write there where it serves.")
@click.argument("cmd", nargs=-1, type=click.UNPROCESSED)
def command(cmd: tuple[str, ...], *, init: bool, each_node: bool, rotate: bool, **asked: Any) -> int:
    """Hand what was asked for to one of the undertakings."""
    names, hosts, remote, ray = (asked.pop(name) for name in ("names", "hosts", "remote", "ray"))
    _check(init=init, hosts=bool(hosts), ray=ray is not None, cmd=bool(cmd))
    if asked["mutual"] and not asked["listen"]:
        raise BadUsage("`--mutual` goes with `--listen`", hint="`gputune agent --listen 0.0.0.0:7070 --mutual`")
    if (each_node or rotate) and not init:
        raise BadUsage("`--each-node` and `--rotate` go with `--init`", hint="`gputune agent --init --rotate`")
    if asked["metrics"] is not None and (init or hosts or ray is not None):
        raise BadUsage("`--metrics` is for an agent of this machine", hint="`gputune agent --metrics`")
    if init:
        return _init(asked["credentials"], names, each=each_node, rotate=rotate)
    if hosts:
        from gputune.nodes import overssh  # noqa: PLC0415 - not for --help

        return overssh.run(hosts, remote)
    if ray is not None:
        lean()
        from gputune.nodes import onray  # noqa: PLC0415 - pyarrow comes lean, and not for --help

        return onray.run(ray)
    from gputune.nodes import agent, beside  # noqa: PLC0415 - as above

    wishes = agent.AgentOptions(name=names[-1] if names else "", **asked)
    return beside.beside(wishes, cmd) if cmd else agent.run(wishes)


def _check(**asked: bool) -> None:
    """Refuse what cannot be done at once."""
    wanted = [name for name, is_wanted in asked.items() if is_wanted]
    if len(wanted) > 1:
        words = ["a command" if name == "cmd" else f"`--{name}`" for name in wanted]
        raise BadUsage(f"{words[0]} and {words[1]} do not go together", hint="see `gputune agent --help`")


def _init(folder: Path | None, names: tuple[str, ...], *, each: bool, rotate: bool) -> int:
    from gputune.wire import credentials  # noqa: PLC0415 - not for --help

    where = folder or credentials.home()
    if not (names or rotate):
        from gputune.nodes import called  # noqa: PLC0415 - as above

        own = called.own_names()
        names = (",".join(own),) if each else own
        click.echo(f"for {', '.join(own)}: what this machine is called; `--name` says it of another one", err=True)
    made = {file.parent for file in credentials.make(where, names, each=each, rotate=rotate)}
    if where / credentials.SERVER in made:
        click.echo(f"{where / credentials.SERVER}: copy it to each node, into ~/.config/gputune/agent/", err=True)
    for node in sorted(place for place in made if place.parent == where / credentials.NODES):
        click.echo(f"{node}: copy it to that node alone, as ~/.config/gputune/agent/server", err=True)
    click.echo(f"{where / credentials.CLIENT}: copy it to where you look from, likewise", err=True)
    click.echo(f"{where / 'ca.key'}: keep it; who has it can make nodes up", err=True)
    if rotate:
        click.echo("nodes first, and start their agents again: they take the token before as well", err=True)
        click.echo("with `--rotate` once more, and copied again, the token before counts for nothing", err=True)
    return 0
