"""MPS through a daemon's control that is a script: nobody is taken for a client who is none, and only ours is ended."""

import os
from pathlib import Path

import pytest

from gputune.sharing.mps import FOLDER_B, PERCENTAGE, PINNED, PIPE, Mps, NoDaemon, seen

# Answers from files beside it; `-d` makes a daemon, whose place is its pipe directory.
CONTROL = """#!/bin/sh
here=$(dirname "$0")
place=${CUDA_MPS_PIPE_DIRECTORY:-$here/default}
if [ "$1" = -d ]; then [ -e "$here/broken" ] && { echo "no permission" >&2; exit 1; }; touch "$place/up"; exit 0; fi
read -r asked
echo "$asked" >> "$here/asked"
[ -e "$place/up" ] || { echo "Cannot find MPS control daemon process"; exit 1; }
case $asked in
get_server_list) cat "$here/servers" 2>/dev/null;;
get_client_list*) cat "$here/clients" 2>/dev/null;;
quit*) rm "$place/up";;
esac
exit 0
"""


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A control program first in PATH, with no daemon up."""
    folder = tmp_path / "bin"
    (folder / "default").mkdir(parents=True)
    (folder / "nvidia-cuda-mps-control").write_text(CONTROL)
    (folder / "nvidia-cuda-mps-control").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv(PIPE, raising=False)
    return folder


def test_without_a_control_program_processes_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    mps = Mps("auto", 3, 9.0, str(tmp_path))
    assert not mps.active
    assert "take turns" in mps.says
    with pytest.raises(NoDaemon, match="was not found in PATH"):
        Mps("on", 3, 9.0, str(tmp_path))


def test_auto_starts_none(control: Path, tmp_path: Path) -> None:
    mps = Mps("auto", 3, 9.0, str(tmp_path))
    assert (mps.active, mps.environment(1.0, [1.0, 1.0], None)) == (False, {})
    assert "`--mps on` starts one" in mps.says


def test_a_daemon_that_runs_is_used_and_never_ended(control: Path, tmp_path: Path) -> None:
    (control / "default" / "up").touch()
    for wish in ("auto", "on"):
        mps = Mps(wish, 3, 9.0, str(tmp_path))
        assert mps.active
        mps.stop()
    assert "quit" not in (control / "asked").read_text()
    assert Mps("off", 3, 9.0, str(tmp_path)).active is False


def test_one_of_our_own_is_started_told_to_the_tasks_and_ended(control: Path, tmp_path: Path) -> None:
    mps = Mps("on", 2, 9.0, str(tmp_path))
    told = mps.environment(2.0, [2.0, 1.0], 6_000_000_000)
    pipes = Path(told[PIPE])
    assert pipes.is_dir()
    assert (told[PERCENTAGE], told[PINNED]) == ("67", "0=5723M")
    assert PERCENTAGE not in mps.environment(1.0, [1.0, 1.0], None)
    mps.stop()
    assert not (pipes / "up").exists()


def test_sockets_have_short_names(control: Path, tmp_path: Path) -> None:
    deep = tmp_path / ("long" * 25)
    deep.mkdir()
    mps = Mps("on", 2, 9.0, str(deep), cards=("MIG-1",))
    pipes = Path(mps.environment(1.0, [1.0], None)[PIPE])
    assert len(str(pipes)) <= FOLDER_B
    mps.stop()
    assert not pipes.exists()


def test_a_daemon_that_does_not_start_is_said(control: Path, tmp_path: Path) -> None:
    (control / "broken").touch()
    with pytest.raises(NoDaemon, match="no permission"):
        Mps("on", 2, 9.0, str(tmp_path))


@pytest.mark.parametrize(("procs", "capability", "works"), [(48, 7.0, True), (49, 7.0, False), (17, 6.1, False)])
def test_clients_are_limited(control: Path, tmp_path: Path, procs: int, capability: float, works: bool) -> None:
    (control / "default" / "up").touch()
    assert Mps("auto", procs, capability, str(tmp_path)).active is works


def test_the_clients_are_those_of_all_servers(control: Path, tmp_path: Path) -> None:
    (control / "default" / "up").touch()
    mps = Mps("auto", 2, 9.0, str(tmp_path))
    assert mps.clients() == set()
    (control / "servers").write_text("71\n")
    (control / "clients").write_text("10\n20\n")
    assert mps.clients() == {10, 20}
    (control / "default" / "up").unlink()
    assert mps.clients() is None


@pytest.mark.parametrize(
    ("clients", "good", "says"),
    [
        ({10, 20}, True, "all of them go through"),
        ({11, 20, 99}, True, "all of them go through"),
        ({10}, False, "process 1 does not go through"),
        (set(), False, "process 0, process 1 do not go through"),
        ({501, 502}, True, "by other pids"),
        (None, False, "does not say"),
    ],
)
def test_who_goes_through_is_told_from_who_does_not(clients: set[int] | None, good: bool, says: str) -> None:
    found = seen({"process 0": {10, 11}, "process 1": {20}}, clients)
    assert found[0] is good
    assert says in found[1]
