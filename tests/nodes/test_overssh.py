"""Agents over ssh: one ssh a host starts the agent and carries its socket; with a stand-in for ssh and its network."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from gputune.core.errors import BadUsage
from gputune.nodes import overssh
from gputune.wire import places
from gputune.wire.address import hostfile
from gputune.wire.client import AgentClient, AgentFailed

Wait = Callable[[Callable[[], object]], None]

# What ssh does with these options, on one machine: the forwarded socket is a link to the other one.
SSH = """#!/bin/sh
echo "$@" >> "$SSH_LOG"
while [ $# -gt 0 ]; do
  case "$1" in
    -L) mine="${2%%:*}"; theirs="${2#*:}"; ln -sf "$theirs" "$mine"; shift 2 ;;
    -o) shift 2 ;;
    --) shift; break ;;
    *) shift ;;
  esac
done
host="$1"; shift
case "$host" in
  bad*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255 ;;
  bare*) echo "sh: 1: gputune: not found" >&2; exit 127 ;;
  late*) if mkdir "$SSH_HOMES/$host/once" 2>/dev/null; then echo "ssh: $host sleeps" >&2; exit 255; fi ;;
esac
HOME="$SSH_HOMES/$host" XDG_STATE_HOME= exec sh -c "$*"
"""


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A folder for sockets with a short name: those of the tests are too long for them where several run at a time."""
    with tempfile.TemporaryDirectory(prefix="gt-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def started(tmp_path: Path, runtime: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """Return what starts `gputune agent --hosts …` with that ssh."""
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    environ = {k: v for k, v in os.environ.items() if not k.startswith("GPUTUNE_")}
    environ |= {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "XDG_RUNTIME_DIR": str(runtime),
        "SSH_HOMES": str(tmp_path / "homes"),
        "SSH_LOG": str(tmp_path / "log"),
    }
    found: list[subprocess.Popen[str]] = []

    def start(*hosts: str) -> "subprocess.Popen[str]":
        for host in ",".join(hosts).split(","):
            (tmp_path / "homes" / host).mkdir(parents=True, mode=0o700, exist_ok=True)
        remote = f"{sys.executable} -m gputune"
        words = [sys.executable, "-m", "gputune", "agent", "--hosts", *hosts, "--remote", remote]
        found.append(subprocess.Popen(words, env=environ, stderr=subprocess.PIPE, text=True))
        return found[-1]

    yield start
    for process in found:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def answers(file: Path) -> list[str]:
    """Return the names of the hosts in a host file whose agents answer."""
    found = []
    for address in hostfile(file) if file.exists() else []:
        far = AgentClient(address)
        try:
            far.hello()
            found.append(address.name)
        except AgentFailed:
            pass
        far.close()
    return found


def test_agents_run_on_all_hosts_and_end_with_their_ssh(
    started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path, runtime: Path, eventually: Wait
) -> None:
    process = started("m8,m9")
    file = runtime / "gputune" / f"hosts-{process.pid}" / "hosts"
    eventually(lambda: answers(file) == ["m8", "m9"])
    sockets = [address.path for address in hostfile(file)]
    remote = [Path(path).readlink() for path in sockets]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert not file.parent.exists()
    eventually(lambda: not any(path.exists() for path in remote))
    assert "BatchMode=yes" in (tmp_path / "log").read_text()


def test_a_host_that_cannot_be_reached_is_told_of_once_and_tried_again_while_the_others_go_on(
    started: Callable[..., "subprocess.Popen[str]"], tmp_path: Path, runtime: Path, eventually: Wait
) -> None:
    process = started("bad1,m9,bare1")
    file = runtime / "gputune" / f"hosts-{process.pid}" / "hosts"
    eventually(lambda: answers(file) == ["m9"])
    eventually(lambda: (tmp_path / "log").read_text().count("bad1") >= 2)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert said.count("no agent was started on bad1: ssh: connect to host bad1 port 22: No route to host; ") == 1
    assert said.count("no agent was started on bare1: sh: 1: gputune: not found (`--remote` says") == 1
    assert said.count("\n") == 3  # these two, and where to look
    assert process.returncode == 1


def test_a_host_that_is_reached_later_is_told_of(
    started: Callable[..., "subprocess.Popen[str]"], runtime: Path, eventually: Wait
) -> None:
    process = started("late1,m9")
    assert process.stderr is not None
    said = list(takewhile(lambda each: each != "gputune: an agent runs on late1 now\n", process.stderr))
    assert "no agent was started on late1: ssh: late1 sleeps; it is tried again" in said[-1]
    file = runtime / "gputune" / f"hosts-{process.pid}" / "hosts"
    eventually(lambda: answers(file) == ["late1", "m9"])
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("hosts", "says"),
    [
        ("bad1", "no agent was started on bad1: ssh: connect to host bad1 port 22: No route to host"),
        ("bad1,bad2,bare3", ", nor on the others: "),
    ],
)
def test_where_no_host_is_reached_there_is_nothing_to_wait_for(
    started: Callable[..., "subprocess.Popen[str]"], runtime: Path, hosts: str, says: str
) -> None:
    process = started(hosts)
    _, said = process.communicate(timeout=60)
    error, _, hint = said.partition("error: ")[2].partition("\n\n")
    assert says in error
    assert hint.startswith("hint: `ssh ba")
    assert said.count("no agent was started on ") == len(hosts.split(","))
    assert process.returncode == 1
    assert not list((runtime / "gputune").iterdir())


@pytest.mark.parametrize("hosts", [[""], ["-oProxyCommand=x"], ["m8,a b"], ["m8\x1b[2J"], ["a=b"]])
def test_what_is_no_host_is_refused(hosts: list[str]) -> None:
    with pytest.raises(BadUsage) as refused:
        overssh.run(hosts)
    assert "\x1b" not in str(refused.value)


def test_no_name_reaches_a_shell_unquoted() -> None:
    tunnel = overssh.Tunnel("m8", Path("/run/x.sock"))
    words = overssh.command(tunnel, "gputune", "/tmp/a b/agent.sock")
    assert words[0] == "ssh"
    assert words[-2:] == ["m8", "gputune agent --socket '/tmp/a b/agent.sock' --until-eof"]
    assert words[words.index("--") + 1] == "m8"


def test_where_a_socket_would_have_too_long_a_name_it_lies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    assert places.sockets() == Path("/tmp") / f"gputune-{os.getuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/tmp")
    assert places.sockets() == Path("/tmp/gputune")
