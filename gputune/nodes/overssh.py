"""Agents on hosts that ssh reaches: `gputune agent --hosts m8,m9`.

One ssh a host, with the user's own settings, starts the agent there and carries its Unix socket here: no port is opened
anywhere, and no certificate is needed. The agent ends with its ssh, because its standard input does. An ssh that ends
is started again, ever more rarely, and why is said once. Where no host at all was ever reached there is nothing to wait
for: a name was mistyped, or ssh asks something.
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
from dataclasses import dataclass
from pathlib import Path

from gputune.core.errors import BadUsage, GputuneError
from gputune.core.hygiene import clean
from gputune.launch.descriptors import say
from gputune.launch.program import NOT_FOUND
from gputune.nodes.agent import SERVES, signals
from gputune.wire import places

SSH = "ssh"
OPTIONS = (
    "-T", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3", "-o", "ConnectTimeout=10",
)  # fmt: skip
REMOTE = "gputune"  # the command there, if it is in PATH for ssh
SOON, LONGEST = 1.0, 30.0  # s to the next try of an ssh that has ended
WELL = 60.0  # s after which one that ends had been well


class Nowhere(GputuneError):  # noqa: N818 - named for what happened
    """No agent was started on any host."""

    def __init__(self, hosts: int, last: "Tunnel", remote: str) -> None:
        others = f", nor on the other{'s' if hosts > 2 else ''}" if hosts > 1 else ""
        super().__init__(
            f"no agent was started on {last.host}{others}: {last.told}",
            hint=f"`{SSH} {last.host} {clean(remote)} --version` has to answer without a question",
        )


@dataclass(slots=True)
class Tunnel:
    """One host: its ssh, and the socket that its agent is reached at here.

    `serves`: its agent has said so to this ssh; `served`: to this or an earlier one. `told` is why there is none, as it
    was said last.
    """

    host: str
    socket: Path
    process: "subprocess.Popen[bytes] | None" = None
    began: float = 0.0
    due: float = 0.0
    pause: float = SOON
    said: bytes = b""
    serves: bool = False
    served: bool = False
    told: str = ""

    @property
    def failed(self) -> bool:
        """Return whether there has never been an agent, and it is known why."""
        return bool(self.told) and not self.served


def run(hosts: Sequence[str], remote: str = REMOTE) -> int:
    """Keep an agent running on each host, and its socket here, until a signal comes; then end all of them.

    Return 1 if a host was never reached. Raises BadUsage for what is no host's name, Nowhere where none was reached,
    GputuneError where there is no ssh.
    """
    if shutil.which(SSH) is None:
        raise GputuneError("`ssh` is not installed", hint="install an ssh client, or start the agents by other means")
    names = _names(hosts)
    folder = places.private(places.sockets() / f"hosts-{os.getpid()}")
    tunnels = [Tunnel(name, places.checked(folder / f"{number}.sock")) for number, name in enumerate(names)]
    file = folder / "hosts"
    file.write_text("".join(f"{t.host}=unix:{t.socket}\n" for t in tunnels))
    _say(f"starting agents on {', '.join(names)}; to look at them: gputune tui --hostfile {shlex.quote(str(file))}")
    try:
        with signals() as wakeup:
            _keep(tunnels, remote, wakeup)
    finally:
        for tunnel in tunnels:
            _end(tunnel)
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if any(tunnel.failed for tunnel in tunnels) else 0


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
            tunnel = listening[descriptor]
            news = _hear(tunnel, os.read(descriptor, 4096))
            if all(each.failed for each in tunnels):
                raise Nowhere(len(tunnels), tunnel, remote)
            if news:
                _say(news)


def command(tunnel: Tunnel, remote: str, there: str) -> list[str]:
    """Return the ssh that runs the agent on a host with a socket `there`, and carries it to the tunnel's own."""
    words = [*shlex.split(remote), "agent", "--socket", there, "--until-eof"]
    return [SSH, *OPTIONS, "-L", f"{tunnel.socket}:{there}", "--", tunnel.host, shlex.join(words)]


def _start(tunnel: Tunnel, remote: str) -> None:
    tunnel.socket.unlink(missing_ok=True)
    there = f"/tmp/gputune-{secrets.token_hex(8)}/agent.sock"  # noqa: S108 - nobody can guess it, and the agent makes it 0700
    tunnel.began = time.monotonic()
    tunnel.said, tunnel.serves = b"", False
    tunnel.process = subprocess.Popen(
        command(tunnel, remote, there),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C is for us: we end them one by one
    )


def _hear(tunnel: Tunnel, data: bytes) -> str:
    """Keep what an ssh says, and see to it when it has ended; return what is to be said of it, if that is new."""
    tunnel.said = (tunnel.said + data)[-2000:]  # B of what it said last: some hosts greet at length
    if not data:
        return _ended(tunnel) if tunnel.process is not None else ""
    if tunnel.serves or SERVES.encode() not in tunnel.said:
        return ""
    tunnel.serves = tunnel.served = True
    told, tunnel.told = tunnel.told, ""
    return f"an agent runs on {tunnel.host} now" if told else ""


def _ended(tunnel: Tunnel) -> str:
    """Have an ssh that has ended started again; return that and why, unless it was said already."""
    lasted = time.monotonic() - tunnel.began
    if lasted > WELL:  # also one that was told to be quiet there, by its environment
        tunnel.serves = tunnel.served = True
    why = _why(tunnel.said, _end(tunnel))
    tunnel.pause = SOON if lasted > WELL else min(LONGEST, 2 * tunnel.pause)
    tunnel.due = time.monotonic() + tunnel.pause
    told, tunnel.told = tunnel.told, why
    if told == why:
        return ""
    what = "the agent on {} has ended" if tunnel.serves else "no agent was started on {}"
    return f"{what.format(tunnel.host)}: {why}; it is tried again, at least every {LONGEST:.0f} s"


def _why(said: bytes, status: int | None) -> str:
    """Return why an ssh has ended: what it said last, or what gputune said there."""
    lines = [each.strip() for each in said.decode(errors="replace").splitlines()]
    lines = [each for each in lines if each and SERVES not in each]
    error = next((each.removeprefix("error: ") for each in lines if each.startswith("error: ")), "")
    why = clean(error or (lines[-1] if lines else "it said nothing"))
    return f"{why} (`--remote` says how gputune is called there)" if status == NOT_FOUND else why


def _end(tunnel: Tunnel) -> int | None:
    """End an ssh, and return its status: its agent hears the end of its input, and leaves."""
    process, tunnel.process = tunnel.process, None
    if process is None:
        return None
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
    return process.returncode


def _say(text: str) -> None:
    say(f"gputune: {text}\n")
