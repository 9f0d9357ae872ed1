"""Which job a run belongs to: what its launcher told the watch, or the ranks, or the watches that met."""

from pathlib import Path

import pytest

from gputune.launch.job import MARK
from gputune.runs.jobs import LONGEST, job_of


@pytest.mark.parametrize(
    ("environ", "job"),
    [
        ({"SLURM_JOB_ID": "4711", "TORCHELASTIC_RUN_ID": "x"}, "4711"),
        ({"PBS_JOBID": "17.head"}, "17.head"),
        ({"LSB_JOBID": "9"}, "9"),
        ({"TORCHELASTIC_RUN_ID": "llm"}, "llm"),
        ({"TORCHELASTIC_RUN_ID": "none", "JOB_NAME": "train"}, "train"),
        ({"SLURM_JOB_ID": ""}, ""),
        ({"RANK": "0"}, ""),
        ({"JOB_NAME": "\x1b[2J"}, "\\x1b[2J"),
    ],
)
def test_the_launchers_name_is_the_jobs(tmp_path: Path, environ: dict[str, str], job: str) -> None:
    assert job_of({"environment": dict(environ)}, tmp_path, ()) == job


@pytest.mark.parametrize("story", [{}, {"environment": None}, {"environment": {"JOB_NAME": None}}])
def test_what_was_not_told_is_no_job(tmp_path: Path, story: dict[str, None]) -> None:
    assert job_of(dict(story), tmp_path, ()) == ""


def _process(proc: Path, pid: int, *words: str) -> None:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "environ").write_text("\0".join(words))


def test_torchrun_under_a_watch_tells_its_ranks_alone(tmp_path: Path) -> None:
    _process(tmp_path / "proc", 7, "GPUTUNE_RINGS=/dev/shm/x", "TORCHELASTIC_RUN_ID=llm")
    assert job_of({}, tmp_path, (6, 7), tmp_path / "proc") == "llm"


def test_a_process_that_is_not_watched_here_is_somebody_elses(tmp_path: Path) -> None:
    _process(tmp_path / "proc", 7, "SLURM_JOB_ID=4711")  # the run is another machine's, and the pid means nothing here
    assert job_of({}, tmp_path, (7,), tmp_path / "proc") == ""


def test_watches_that_met_in_one_folder_are_of_one_job(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text("torch-train_master_0_23456")
    assert job_of({}, tmp_path, ()) == "torch-train_master_0_23456"


def test_a_job_of_one_machine_is_not_that_of_another_machine(tmp_path: Path) -> None:
    (tmp_path / MARK).write_text("torch-none_127.0.0.1_29500")
    assert job_of({}, tmp_path, ()) == ""


def test_a_long_name_is_cut(tmp_path: Path) -> None:
    assert len(job_of({"environment": {"JOB_NAME": "x" * 999}}, tmp_path, ())) == LONGEST
