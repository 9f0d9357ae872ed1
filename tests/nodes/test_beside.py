"""An agent beside a command: the command is what was typed, in every way, and one rank a node starts the agent."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputune.nodes.beside import is_first
from gputune.wire import places
from gputune.wire.address import Address
from gputune.wire.client import AgentClient

COUNT = "import sys, psutil; sys.stdin.read(); sys.exit(len(psutil.Process().children()))"
Wait = Callable[[Callable[[], object]], None]


@pytest.mark.parametrize(
    ("environ", "first"),
    [
        ({}, True),
        ({"RANK": "3", "WORLD_SIZE": "4", "MASTER_ADDR": "x"}, True),  # a PyTorchJob: a pod a rank
        ({"LOCAL_RANK": "0", "RANK": "8"}, True),
        ({"LOCAL_RANK": "1", "RANK": "0"}, False),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "2"}, False),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_RANK": "4"}, True),
        ({"MPI_LOCALRANKID": "1"}, False),
        ({"HOROVOD_LOCAL_RANK": "1"}, False),
        ({"SLURM_LOCALID": "0", "SLURM_PROCID": "9"}, True),
        ({"SLURM_LOCALID": "3", "SLURM_PROCID": "3"}, False),
        ({"SLURM_LOCALID": "0", "LOCAL_RANK": "1"}, False),  # torchrun inside of srun
    ],
)
def test_the_first_rank_of_a_node_starts_the_agent(environ: dict[str, str], first: bool) -> None:
    assert is_first(environ) is first


def words(folder: Path, *command: str) -> list[str]:
    folder.mkdir(mode=0o700, exist_ok=True)
    own = ["--state", str(folder / "state"), "--socket", str(folder / "s" / "a.sock"), "--quiet"]
    return [sys.executable, "-m", "gputune", "agent", *own, "--", *command]


def plain(**more: str) -> dict[str, str]:
    launchers = ("RANK", "LOCAL_", "OMPI_", "SLURM_", "GPUTUNE_", "MPI_", "HOROVOD_")
    return {**{k: v for k, v in os.environ.items() if not k.startswith(launchers)}, **more}


def is_locked(folder: Path) -> bool:
    """Return whether an agent runs with that folder."""
    try:
        os.close(places.lock(folder / "state"))
    except places.Runs:
        return True
    except FileNotFoundError:
        return False
    return False


@pytest.mark.parametrize("status", [0, 7])
def test_status_and_streams_are_the_commands_own(tmp_path: Path, status: int, eventually: Wait) -> None:
    code = f"import sys; print('out'); print('err', file=sys.stderr); print(sys.stdin.read()); sys.exit({status})"
    done = subprocess.run(
        words(tmp_path / "a", sys.executable, "-c", code), env=plain(), input="in", capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (status, "out\nin\n", "err\n")
    eventually(lambda: not is_locked(tmp_path / "a"))


def test_a_fatal_signal_is_the_commands_own(tmp_path: Path, eventually: Wait) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    done = subprocess.run(words(tmp_path / "a", sys.executable, "-c", code), env=plain(), timeout=60, check=False)
    assert done.returncode == -signal.SIGTERM
    eventually(lambda: not is_locked(tmp_path / "a"))


@pytest.mark.parametrize(("name", "status"), [("no-such-program", 127), (os.devnull, 126)])
def test_what_cannot_be_started_is_told_as_a_shell_tells_it(
    tmp_path: Path, name: str, status: int, eventually: Wait
) -> None:
    done = subprocess.run(
        words(tmp_path / "a", name), env=plain(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == status
    assert "error:" in done.stderr
    eventually(lambda: not is_locked(tmp_path / "a"))


def test_of_a_command_that_is_not_there_one_sentence_is_all(tmp_path: Path) -> None:
    loud = [word for word in words(tmp_path / "a", "no-such-program") if word != "--quiet"]
    done = subprocess.run(loud, env=plain(), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr == (
        "error: `no-such-program` was not found in PATH\n\nhint: check the spelling, or give the path of the program\n"
    )
    assert not (tmp_path / "a" / "state").exists()  # nor was an agent started for it


def test_one_agent_serves_while_the_ranks_of_a_node_run_and_ends_with_the_first(
    tmp_path: Path, eventually: Wait
) -> None:
    folder = tmp_path / "a"
    ranks = [
        subprocess.Popen(
            words(folder, sys.executable, "-c", COUNT),
            env=plain(LOCAL_RANK=str(rank), RANK=str(rank)), stdin=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in range(3)
    ]  # fmt: skip
    far = AgentClient(Address("m8", path=str(folder / "s" / "a.sock")))
    eventually((folder / "s" / "a.sock").exists)
    assert far.hello().runs[0] == "machine"
    far.close()
    for rank in ranks:
        rank.communicate(timeout=60)
        assert rank.returncode == 0  # the agent is no child of the command
    eventually(lambda: not is_locked(folder))


def test_the_command_runs_where_no_agent_can(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "gputune", "agent", "--state", str(blocked / "x"), "--", "echo", "trained"],
        env=plain(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout == "trained\n"
    assert done.returncode == 0


def test_signals_that_python_ignores_are_as_the_command_expects(tmp_path: Path, eventually: Wait) -> None:
    done = subprocess.run(
        words(tmp_path / "a", "sh", "-c", "grep SigIgn /proc/self/status"), env=plain(), capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    ignored = int(done.stdout.split()[1], 16)
    assert not ignored & (1 << (signal.SIGPIPE - 1))
    eventually(lambda: not is_locked(tmp_path / "a"))


RANK = "import os, sys; print('rank', os.environ['{rank}'], flush=True); sys.stdin.read(); sys.exit({status})"


def launched(folder: Path, launcher: list[str], rank: str, status: int = 0) -> subprocess.Popen[str]:
    command = [*launcher, *words(folder, sys.executable, "-c", RANK.format(rank=rank, status=status))]
    return subprocess.Popen(command, env=plain(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "rank"),
    [
        (["torchrun", "--nproc-per-node", "2", "--no-python"], "RANK"),
        (["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2"], "OMPI_COMM_WORLD_RANK"),
    ],
    ids=["torchrun", "mpirun"],
)
def test_a_real_launcher_gets_one_agent_a_node(
    tmp_path: Path, eventually: Wait, launcher: list[str], rank: str
) -> None:
    if shutil.which(launcher[0]) is None:
        pytest.skip(f"there is no {launcher[0]} here")
    folder = tmp_path / "a"
    folder.mkdir(mode=0o700)
    process = launched(folder, launcher, rank)
    far = AgentClient(Address("m8", path=str(folder / "s" / "a.sock")))
    eventually(lambda: (folder / "s" / "a.sock").exists() or process.poll() is not None)
    assert far.hello().runs[0] == "machine"
    far.close()
    said, _ = process.communicate(timeout=60)
    assert sorted(line for line in said.splitlines() if line.startswith("rank")) == ["rank 0", "rank 1"]
    assert process.returncode == 0
    eventually(lambda: not is_locked(folder))
