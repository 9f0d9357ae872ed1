"""One command to all nodes, by the user's own ssh: here a stand-in that runs it on this machine."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SSH = """#!/bin/sh
while [ "$1" != "--" ]; do shift; done
host="$2"; shift 2
case "$host" in
  bad*) echo "ssh: connect to host $host port 22: No route to host" >&2; exit 255 ;;
esac
HOST="$host" exec sh -c "$*"
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def nodes(tmp_path: Path) -> Run:
    """Return what runs `gputune nodes …` with that ssh, or without any."""

    def run(*arguments: str, ssh: str = SSH) -> "subprocess.CompletedProcess[str]":
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        if ssh:
            (folder / "ssh").write_text(ssh)
            (folder / "ssh").chmod(0o755)
        environ = {k: v for k, v in os.environ.items() if not k.startswith("GPUTUNE_")}
        environ["PATH"] = f"{folder}{os.pathsep}/usr/bin{os.pathsep}/bin" if ssh else str(folder)
        words = [sys.executable, "-m", "gputune", "nodes", *arguments]
        return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_each_line_stands_behind_its_nodes_name(nodes: Run) -> None:
    done = nodes("m8:7071,other=m9,m8=unix:/run/x.sock", "--run", 'echo "on $HOST"; echo more')
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines())[::2] == ["m8: more", "m8:7071: more", "other: more"]
    assert sorted(done.stdout.splitlines())[1::2] == ["m8: on m8", "m8:7071: on m8", "other: on m9"]
    assert not done.stderr


def test_what_fails_is_told_and_takes_no_other_node_with_it(nodes: Run) -> None:
    done = nodes("bad1,m8,m9", "--run", 'test "$HOST" != m9 && echo fine')
    assert done.returncode == 1
    assert done.stdout == "m8: fine\n"
    assert sorted(done.stderr.splitlines()) == [
        "bad1: ended with status 255",
        "bad1: ssh: connect to host bad1 port 22: No route to host",
        "m9: ended with status 1",
    ]


def test_what_would_move_the_cursor_is_not_printed(nodes: Run) -> None:
    assert "\x1b" not in nodes("m8", "--run", r"printf '\033[2Jgone\n'").stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--run", "true"), "`--run` needs the nodes to type to"),
        (("m8", "--run", " "), "`--run` types nothing"),
        (("unix:/run/agent.sock", "--run", "true"), "`unix:/run/agent.sock` is a socket"),
        (("m8", "--run", "true", "--json"), "`--run` only types a command"),
    ],
)
def test_what_cannot_be_typed_is_an_error_of_usage(nodes: Run, arguments, says) -> None:
    done = nodes(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {says}")
    assert "\n\nhint: " in done.stderr


def test_without_an_ssh_it_says_so(nodes: Run) -> None:
    done = nodes("m8", "--run", "true", ssh="")
    assert done.returncode == 1
    assert done.stderr.startswith("error: `ssh` could not be started: No such file or directory")
