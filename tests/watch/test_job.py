"""Several watches of one job: one run folder, a seat for each, and one verdict, printed once."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gputune.core.errors import BadUsage
from gputune.launch import folders, job
from gputune.launch.job import LATE, LAUNCHERS, MARK, seats, sit_down, told
from gputune.watching import starting

COMMAND = ("python", "train.py")
TORCH = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456"}
MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "PMIX_NAMESPACE": "host@42"}
SLURM = {"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "0"}
HOROVOD = {"HOROVOD_RANK": "0", "HOROVOD_SIZE": "4", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "n1"}
PMI = {"PMI_RANK": "0", "PMI_SIZE": "2", "PMI_JOBID": "9/1"}


@pytest.mark.parametrize(
    ("environ", "key", "rank"),
    [
        (TORCH, "torch-job_master_0_23456", 1),
        (MPI, "openmpi-host_42", 2),
        (SLURM, "slurm-77_0", 3),
        (PMI, "mpi-9_1", 0),
        (HOROVOD, "horovod-n1", 0),
        ({**SLURM, **TORCH}, "torch-job_master_0_23456", 1),
    ],
)
def test_the_launcher_names_job_and_rank(environ: dict[str, str], key: str, rank: int) -> None:
    found = told(environ)
    assert found is not None
    assert (found.key, found.rank) == (key, rank)


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"RANK": "0"},
        {**TORCH, "WORLD_SIZE": "1"},
        {**TORCH, "RANK": "7"},
        {**TORCH, "RANK": "-1"},
        {**SLURM, "SLURM_NTASKS": "x"},
    ],
)
def test_a_watch_that_is_alone_belongs_to_no_job(environ: dict[str, str]) -> None:
    assert told(environ) is None


def test_a_launcher_that_names_no_job_is_told_by_its_session() -> None:
    found = told({"PMI_RANK": "0", "PMI_SIZE": "2"})
    assert found is not None
    assert found.key == f"mpi-of_{os.getsid(0)}"


def test_a_watch_looks_for_every_launcher_that_is_known() -> None:
    assert set(starting.RANKS) == {rank for _, rank, _, _ in LAUNCHERS}


def rank(number: int, key: str = "slurm-77_0") -> job.Job:
    return job.Job(key, number, 4)


def test_ranks_of_one_job_sit_in_one_folder() -> None:
    whole, first = sit_down(rank(1), COMMAND, None)
    assert sit_down(rank(0), COMMAND, None)[0] == whole
    assert Path(whole).name.endswith("-slurm-77_0-train")
    assert [Path(seat).name for seat in seats(whole)] == ["rank-00000", "rank-00001"]
    assert Path(first).name == "rank-00001"
    assert {Path(path).stat().st_mode & 0o777 for path in (whole, first)} == {0o700}


def test_another_start_of_the_same_job_gets_another_folder() -> None:
    both = [sit_down(rank(0), COMMAND, None)[0] for _ in range(2)]
    assert both[0] != both[1]
    assert sit_down(rank(1), COMMAND, None)[0] in both


def test_nobody_joins_another_job_a_finished_one_or_an_old_one() -> None:
    whole = sit_down(rank(0), COMMAND, None)[0]
    assert sit_down(rank(1, "slurm-78_0"), COMMAND, None)[0] != whole
    (Path(whole) / "findings.json").touch()
    again = sit_down(rank(2), COMMAND, None)[0]
    assert again != whole
    long_ago = time.time() - 2 * LATE
    os.utime(Path(again) / MARK, (long_ago, long_ago))
    assert sit_down(rank(3), COMMAND, None)[0] not in {whole, again}


def test_a_folder_that_was_named_is_shared_by_the_ranks_and_by_nobody_else(tmp_path: Path) -> None:
    out = str(tmp_path / "runs" / "one")
    assert sit_down(rank(0), COMMAND, out)[0] == sit_down(rank(1), COMMAND, out)[0] == out
    with pytest.raises(BadUsage, match="already holds another run"):
        sit_down(rank(1), COMMAND, out)
    with pytest.raises(BadUsage, match="already holds another run"):
        sit_down(rank(2, "slurm-78_0"), COMMAND, out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(BadUsage):
        sit_down(rank(0), COMMAND, str(tmp_path / "full"))


def claims(out: str, start: threading.Barrier) -> str:
    """Return what a watch is told that claims this folder; "" for the one that has it."""
    start.wait()
    try:
        folders.claimed(out, COMMAND)
    except BadUsage as refused:
        return str(refused)
    return ""


def test_of_watches_that_start_together_and_know_of_no_job_one_has_the_folder(tmp_path: Path) -> None:
    out, start = str(tmp_path / "one"), threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        told = list(pool.map(lambda _: claims(out, start), range(8)))
    assert told.count("") == 1
    assert all("already holds a run" in words and f"--out {out}-2" in words for words in told if words)


def test_a_folder_that_looked_empty_to_two_is_the_first_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "one"
    out.mkdir()
    with monkeypatch.context() as blind:
        blind.setattr(os, "listdir", lambda _: [])
        assert folders.claimed(str(out)) == str(out)
        with pytest.raises(BadUsage, match="already holds a run"):
            folders.claimed(str(out))
    folders.remove_empty(str(out))  # the command could not be started: the name is free again
    assert not out.exists()


@pytest.mark.parametrize(
    ("command", "form"),
    [
        ("torchrun --nnodes 2 train.py", "torchrun --no-python gputune watch --out F -- python train.py"),
        ("bin/torchrun --nnodes=1:4 train.py", "torchrun --no-python gputune watch --out F -- python train.py"),
        ("srun -N2 python train.py", "srun gputune watch --out F -- python train.py"),
        ("srun --nodes 2 python train.py", "srun gputune watch --out F -- python train.py"),
        ("mpirun -np 4 --host a,b python train.py", "mpirun gputune watch --out F -- python train.py"),
        ("torchrun --nnodes=1 --nproc-per-node 2 train.py", ""),
        ("torchrun --nnodes 1:1 train.py", ""),
        ("srun -N 1 python train.py", ""),
        ("mpirun -np 4 python train.py", ""),
        ("python train.py --host a", ""),
    ],
)
def test_a_launcher_of_several_nodes_is_told_the_form_that_joins(command: str, form: str) -> None:
    assert job.inside(tuple(command.split()), "F") == form


def test_the_refusal_on_another_node_names_the_form_that_joins(tmp_path: Path) -> None:
    command = ("torchrun", "--nnodes", "2", "train.py")
    folders.claimed(str(tmp_path / "one"), command)
    with pytest.raises(BadUsage, match="already holds a run") as refused:
        folders.claimed(str(tmp_path / "one"), command)
    assert "`torchrun --no-python gputune watch --out" in refused.value.hint


def ended(started: "list[subprocess.Popen[str]]") -> list[tuple[int, str]]:
    return [(process.returncode, errors) for process in started for _, errors in [process.communicate(timeout=120)]]


def patient(errors: str) -> None:
    """Skip where this machine was so busy that one watch did not wait for the end of another."""
    if "the verdict is without" in errors:
        pytest.skip(errors)


@pytest.mark.parametrize("launcher", [TORCH, HOROVOD, MPI, PMI, SLURM], ids=lambda environ: next(iter(environ)))
def test_one_verdict_is_printed_once_and_the_status_is_each_ranks_own(
    launcher: dict[str, str],
    started: Callable[..., "subprocess.Popen[str]"],
    run_folder: Callable[[], Path],
    tmp_path: Path,
) -> None:
    rank_is, size_is = list(launcher)[:2]
    together = (
        "import os, pathlib, sys, time\n"
        f"rank = os.environ['{rank_is}']\n"
        "pathlib.Path(rank).touch()\n"
        "end = time.monotonic() + 90\n"
        "while not all(os.path.exists(n) for n in '012') and time.monotonic() < end: time.sleep(0.01)\n"
        "sys.exit(int(rank))\n"
    )
    watches = [
        started(
            "--json", "all.json", "--", sys.executable, "-c", together,
            env={**os.environ, **launcher, size_is: "3", rank_is: str(number)},
        )
        for number in (2, 0, 1)
    ]  # fmt: skip
    told_by = ended(watches)
    assert [status for status, _ in told_by] == [2, 0, 1]
    patient(told_by[1][1])
    assert told_by[1][1].count("gputune:") == 1, told_by
    assert [errors for _, errors in (told_by[0], told_by[2])] == ["", ""]
    folder = run_folder()
    assert {path.name for path in folder.iterdir()} == {
        MARK, "run.json", "findings.json", "rank-00000", "rank-00001", "rank-00002",
    }  # fmt: skip
    verdict = json.loads((tmp_path / "all.json").read_text())
    assert verdict == json.loads((folder / "findings.json").read_text())
    assert verdict["exit_code"] == 1  # of the lowest rank that failed
    about = json.loads((folder / "run.json").read_text())
    assert about["ranks"] == ["rank-00000", "rank-00001", "rank-00002"]
    again = subprocess.run(
        [sys.executable, "-m", "gputune", "report", str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert again.stdout.startswith("gputune:")


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun is installed")
def test_a_real_mpirun_has_one_verdict(run_folder: Callable[[], Path]) -> None:
    watch = [sys.executable, "-m", "gputune", "watch", "--", sys.executable, "-c", "pass"]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        ["mpirun", "-np", "2", *watch], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    if done.returncode and "gputune" not in done.stderr:
        pytest.skip(f"this mpirun does not start here: {done.stderr[-300:]}")
    assert done.returncode == 0, done.stderr
    patient(done.stderr)
    assert done.stderr.count("gputune:") == 1
    assert [Path(seat).name for seat in seats(str(run_folder()))] == ["rank-00000", "rank-00001"]
