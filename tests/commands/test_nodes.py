"""`gputune nodes` as it is typed: a line a node, JSON, and what was recorded kept here."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gputune.recording import load
from tests.conftest import Run, wait_until


@contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """Give the address of a running agent."""
    folder.mkdir(mode=0o700)
    words = ["--state", folder / "state", "--socket", folder / "a.sock", "--announce", folder / "announced", "--quiet"]
    process = subprocess.Popen(
        [sys.executable, "-m", "gputune", "agent", "--until-eof", *map(str, words), *options],
        stdin=subprocess.PIPE,
        env={n: v for n, v in os.environ.items() if not n.startswith("GPUTUNE_")} | {"GPUTUNE_RACK": "r7"},
    )
    try:
        wait_until((folder / "announced").exists)
        yield f"unix:{folder / 'a.sock'}"
    finally:
        process.communicate(timeout=60)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    """The address of a running agent."""
    with served(tmp_path / "agent") as address:
        yield address


def test_a_line_a_node(gputune: Run, agent: str, tmp_path: Path) -> None:
    done = gputune("nodes", f"m8={agent},m9=unix:{tmp_path / 'none'}")
    head, m8, m9 = done.stdout.splitlines()
    assert done.returncode == 0
    assert head.split()[:3] == ["node", "link", "devices"]
    assert m8.split()[:2] == ["m8", "up"]
    assert m9.split()[:2] == ["m9", "down"]
    assert m9.endswith("no agent runs there: there is no such socket")


def test_json_of_all_of_them(gputune: Run, agent: str, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text(f"m8={agent} # here\n")
    done = gputune("nodes", "--hostfile", str(hosts), "--json")
    document = json.loads(done.stdout)
    assert document["schema_version"] == 1
    assert [(node["name"], node["rack"]) for node in document["nodes"]] == [("m8", "r7")]
    assert "job" in document["nodes"][0]
    assert document["clocks"]["m8"]["uncertain_s"] < 10


def test_nobody_answers(gputune: Run, tmp_path: Path) -> None:
    done = gputune("nodes", f"unix:{tmp_path / 'none'}")
    assert done.returncode == 1
    assert "down" in done.stdout


@pytest.fixture
def alone() -> Iterator[Path]:
    """Return the folder of sockets of a user whom no agent serves: a short one, as such names must be."""
    with tempfile.TemporaryDirectory(prefix="gputune-", dir="/tmp") as folder:
        yield Path(folder)


def test_without_an_agent_it_is_this_machine_that_is_read(gputune: Run, alone: Path, simgpu: Any) -> None:
    simgpu(2)
    done = gputune("nodes", "-cup", XDG_RUNTIME_DIR=str(alone))
    assert done.returncode == 0, done.stderr
    head, first, second = [each for each in done.stdout.splitlines() if not each.startswith("      ")]
    assert "CPUs " in head
    for index, card in enumerate((first, second)):
        assert card.startswith(f"[{index}] Simulated GPU")
        assert " / 80.0 GiB | " in card
    document = json.loads(gputune("nodes", "--json", XDG_RUNTIME_DIR=str(alone)).stdout)
    (node,) = document["nodes"]
    assert node["link"] == "local"
    assert all(device["memory_total"] and device["power_limit"] for device in node["devices"])


def test_it_is_printed_anew_until_somebody_ends_it(alone: Path) -> None:
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(alone)}
    words = [sys.executable, "-m", "gputune", "nodes", "-i", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environ, text=True) as process:
        assert process.stdout is not None
        heads = 0
        for line in process.stdout:
            heads += " 20" in line and ":" in line
            if heads == 3:
                break
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(60) == 0


def test_a_socket_that_an_agent_has_left_behind_is_no_agent(gputune: Run, alone: Path) -> None:
    folder = alone / "gputune"
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(folder / "agent.sock"))
    done = gputune("nodes", "--json", XDG_RUNTIME_DIR=str(alone))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["nodes"][0]["link"] == "local"


def test_what_a_node_records_is_kept_here(gputune: Run, agent: str, tmp_path: Path) -> None:
    done = gputune("nodes", f"m8={agent}", "--keep", str(tmp_path / "kept"), "--for", "3s")
    assert done.returncode == 0, done.stderr
    run = load(tmp_path / "kept" / "m8")
    assert run.about["host"] == "m8"
    assert run.tables["samples"].num_rows >= 2
    assert "memory.total" in run.tables["samples"].column_names
    again = gputune("nodes", f"m8={agent}", "--keep", str(tmp_path / "kept"), "--for", "3s")
    assert again.returncode == 2
    assert "is not an empty folder" in again.stderr


def test_samples_do_not_come_through_a_relay_and_that_is_said_at_once(gputune: Run, agent: str, tmp_path: Path) -> None:
    with served(tmp_path / "relay", "--relay", f"m8={agent}") as relay:
        done = gputune("nodes", f"rack-1={relay}", "--keep", str(tmp_path / "kept"))  # without an end of its own
        assert done.returncode == 1
        assert done.stderr == "rack-1: 0 rows: it is a relay, through which no samples come: name the nodes behind it\n"
        both = gputune("nodes", f"rack-1={relay},m8={agent}", "--keep", str(tmp_path / "both"), "--for", "3s")
    assert both.returncode == 0
    assert both.stderr.startswith("rack-1: it is a relay")
    assert not (tmp_path / "both" / "rack-1").exists()
    assert load(tmp_path / "both" / "m8").tables["samples"].num_rows


def test_why_nothing_comes_of_a_node_is_said_while_it_is_kept(gputune: Run, agent: str, tmp_path: Path) -> None:
    done = gputune("nodes", f"m8={agent},m9=unix:{tmp_path / 'none'}", "--keep", str(tmp_path / "kept"), "--for", "3s")
    assert done.returncode == 0
    first, *last = done.stderr.splitlines()
    assert first == "m9: no agent runs there: there is no such socket"
    assert sorted(each.partition(" rows")[0].partition(":")[0] for each in last) == ["m8", "m9"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["m8:x"], "has no port"),
        (["--hostfile", "/nonexistent"], "cannot be read"),
        (["--hostfile", "/dev/null"], "names no host"),
        (["m8", "--hostfile", "/dev/null"], "were given twice"),
        (["m8", "--for", "3s"], "`--for` goes with `--keep`"),
        (["m8", "--credentials", "/nonexistent"], "cannot be read"),
        (["--watch", "--json"], "print words, and for ever"),
        (["-i", "0"], "is not a time of at least a second"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(gputune: Run, words: list[str], says: str) -> None:
    done = gputune("nodes", *words)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_the_screen_takes_the_same_addresses(gputune: Run, agent: str, tmp_path: Path) -> None:
    done = gputune("tui", "--nodes", f"m8={agent},m9=unix:{tmp_path / 'none'}", "--every", "5s", "--json")
    document = json.loads(done.stdout)
    assert {node["name"]: node["link"] for node in document["nodes"]} == {"m8": "up", "m9": "down"}
    both = gputune("tui", "--nodes", "m8", "--json", str(tmp_path))
    assert both.returncode == 2
    assert "a recording is of one machine" in both.stderr


def test_the_screens_rows_of_nobody_are_a_failure_too(gputune: Run, tmp_path: Path) -> None:
    done = gputune("tui", "--nodes", f"unix:{tmp_path / 'none'}", "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["nodes"][0]["link"] == "down"
