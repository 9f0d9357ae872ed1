"""Agents on hosts that ssh reaches: `gputune agent --hosts m8,m9`.

One ssh a host, with the user's own settings, starts the agent there and carries its Unix socket here: no port is opened
anywhere, and no certificate is needed. The agent ends with its ssh, because its standard input does. An ssh that ends
is started again, ever more rarely.
"""

import os
import secrets
import select
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gputune.errors import BadUsage, GputuneError
from gputune.hygiene import clean
from gputune.launch.descriptors import say
from gputune.nodes import places
from gputune.nodes.agent import signals

SSH = "ssh"
OPTIONS = (
    "-T", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=10",
)  # fmt: skip
REMOTE = "gputune"  # the command there, if it is in PATH for ssh
SOON, LONGEST = 1.0, 30.0  # s to the next try of an ssh that has ended
WELL = 60.0  # s after which one that ends had been well
SAID = 400  # characters of what it said


@dataclass(slots=True)
class Tunnel:
    """One host: its ssh, and the socket that its agent is reached at here."""

    host: str
    socket: Path
    process: "subprocess.Popen[bytes] | None" = None
    began: float = 0.0
    due: float = 0.0
    pause: float = SOON
    said: bytearray = field(default_factory=bytearray)


def run(hosts: Sequence[str], remote: str = REMOTE) -> int:
    """Keep an agent running on each host, and its socket here, until a signal comes; then end all of them.

    Raises BadUsage for what is no host's name, GputuneError where there is no ssh.
    """
    if shutil.which(SSH) is None:
        raise GputuneError("`ssh` is not installed", hint="install an ssh client, or start the agents by other means")
    names = _names(hosts)
    folder = places.private(places.sockets() / f"hosts-{os.getpid()}")
    tunnels = [Tunnel(name, places.checked(folder / f"{number}.sock")) for number, name in enumerate(names)]
    file = folder / "hosts"
    file.write_text("".join(f"{t.host}=unix:{t.socket}\n" for t in tunnels))
    _say(f"agents on {', '.join(names)}; to look at them: gputune tui --hostfile {shlex.quote(str(file))}")
    try:
        with signals() as wakeup:
            _keep(tunnels, remote, wakeup)
    finally:
        for tunnel in tunnels:
            _end(tunnel)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _names(hosts: Sequence[str]) -> list[str]:
    """Return the hosts, each once. What begins with a dash would be an option of ssh."""
    found = list(dict.fromkeys(word.strip() for text in hosts for word in text.split(",") if word.strip()))
    if not found:
        raise BadUsage("no host was named", hint="`gputune agent --hosts m8,m9`")
    for name in found:
        if name.startswith("-") or clean(name) != name or any(c.isspace() or c == "=" for c in name):
            raise BadUsage(f"`{clean(name)}` is no host for ssh", hint="a name of your ~/.ssh/config, or `user@host`")
    return found


def _keep(tunnels: Sequence[Tunnel], remote: str, wakeup: int) -> None:
    while True:
        for tunnel in tunnels:
            if tunnel.process is None and time.monotonic() >= tunnel.due:
                _start(tunnel, remote)
        poll = select.poll()
        poll.register(wakeup, select.POLLIN)
        listening = {t.process.stderr.fileno(): t for t in tunnels if t.process is not None and t.process.stderr}
        for descriptor in listening:
            poll.register(descriptor, select.POLLIN)
        waiting = [t.due - time.monotonic() for t in tunnels if t.process is None]
        ready = [fd for fd, _ in poll.poll(max(0.0, min([*waiting, LONGEST])) * 1000 + 1)]
        if wakeup in ready:
            return
        for descriptor in ready:
            _hear(listening[descriptor], os.read(descriptor, 4096))


def command(tunnel: Tunnel, remote: str, there: str) -> list[str]:
    """Return the ssh that runs the agent on a host with a socket `there`, and carries it to the tunnel's own."""
    words = [*shlex.split(remote), "agent", "--socket", there, "--until-eof", "--quiet"]
    return [SSH, *OPTIONS, "-L", f"{tunnel.socket}:{there}", "--", tunnel.host, shlex.join(words)]


def _start(tunnel: Tunnel, remote: str) -> None:
    tunnel.socket.unlink(missing_ok=True)
    there = f"/tmp/gputune-{secrets.token_hex(8)}/agent.sock"  # noqa: S108 - nobody can guess it, and the agent makes it 0700
    tunnel.began = time.monotonic()
    tunnel.said.clear()
    tunnel.process = subprocess.Popen(
        command(tunnel, remote, there),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C is for us: we end them one by one
    )


def _hear(tunnel: Tunnel, data: bytes) -> None:
    """Keep what an ssh says, and see to it when it has ended."""
    tunnel.said += data[: SAID - len(tunnel.said)] if len(tunnel.said) < SAID else b""
    if data or tunnel.process is None:
        return
    lasted = time.monotonic() - tunnel.began
    _end(tunnel)
    tunnel.pause = SOON if lasted > WELL else min(LONGEST, 2 * tunnel.pause)
    tunnel.due = time.monotonic() + tunnel.pause
    lines = tunnel.said.decode(errors="replace").strip().splitlines()
    error = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), "")
    why = clean(error or (lines[-1] if lines else "it said nothing"))
    _say(f"the agent on {tunnel.host} has ended ({why}); it is started again in {tunnel.pause:.0f} s")


def _end(tunnel: Tunnel) -> None:
    """End an ssh: its agent hears the end of its input, and leaves."""
    process, tunnel.process = tunnel.process, None
    if process is None:
        return
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(2.0)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(2.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stderr is not None:
        process.stderr.close()


def _say(text: str) -> None:
    say(f"gputune: {text}\n")
