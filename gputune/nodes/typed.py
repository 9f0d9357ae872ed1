"""One command typed to all nodes: `gputune nodes m8,m9 --run 'nvidia-smi -L'`, over the user's own ssh.

Agents have no part in it: they are asked, and do nothing. One ssh a node, with the user's settings and rights, so that
what may be done there is what the user may do anyway; it asks nothing (`BatchMode`), and has no input. A node's lines
come as they are written, each behind its name.
"""

import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import IO

import click

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.wire.address import Address

SSH = ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10")
AT_ONCE = 32  # ssh at a time: each is a process here
LONGEST = 4000  # characters of a line


def run(nodes: list[Address], command: str) -> int:
    """Type `command` to the shell of each node. Returns 0 if it returned 0 on all of them, else 1.

    Raises BadUsage where a node has neither host nor name, or nothing is typed, GputuneError where there is no ssh.
    """
    if not command.strip():
        raise BadUsage("`--run` types nothing", hint="`gputune nodes m8,m9 --run 'nvidia-smi -L'`")
    hosts = [_host(node) for node in nodes]
    with ThreadPoolExecutor(min(AT_ONCE, len(hosts))) as pool:
        statuses = list(pool.map(lambda node, host: _typed(node.name, host, command), nodes, hosts))
    return int(any(statuses))


def _host(node: Address) -> str:
    """Return what ssh calls a node: its host, or of one behind a socket (`agent --hosts`) its name."""
    if node.host or node.named:
        return node.host or node.name
    says = f"`{clean(str(node))}` is a socket, and no host that ssh knows"
    raise BadUsage(says, hint=f"name it as ssh does: `gputune nodes m8={clean(str(node))} --run …`")


def _typed(name: str, host: str, command: str) -> int:
    words = [*SSH, "--", host, command]
    try:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        raise GputuneError(f"`ssh` could not be started: {error.strerror}", hint="install an ssh client") from error
    with process:
        talk = Thread(target=_told, args=(name, process.stderr, lambda line: click.echo(line, err=True)))
        talk.start()
        _told(name, process.stdout, click.echo)
        talk.join()
    if process.returncode:
        click.echo(f"{clean(name)}: ended with status {process.returncode}", err=True)
    return process.returncode


def _told(name: str, lines: "IO[bytes] | None", say: Callable[[str], None]) -> None:
    found: Iterable[bytes] = lines or ()
    for line in found:
        say(f"{clean(name)}: {clean(line.decode(errors='replace').rstrip(), LONGEST)}")
