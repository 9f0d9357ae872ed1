"""What run.json says of where a run ran: the machine, the job, and the commit of its code."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputune.watching.recorder import revision
from gputune.watching.recorder.batch import job
from gputune.watching.recorder.facts import Facts, machine
from gputune.watching.recorder.revision import Revision, head, script_folder, top_of
from tests.conftest import wait_until

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
Git = Callable[..., str]


@pytest.fixture
def git(tmp_path: Path) -> Git:
    """Run git in a folder below the test's own, with no settings of anybody's."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}

    def run(folder: Path, *arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
        done = subprocess.run(
            ["git", *who, *arguments], cwd=folder, env=env, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    return run


@pytest.fixture
def project(git: Git, tmp_path: Path) -> Path:
    """Return a project with one commit, of a script in a folder of its own."""
    top = tmp_path / "project"
    (top / "src").mkdir(parents=True)
    (top / "src" / "train.py").write_text("print(1)\n")
    git(top, "init", "-q")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "one")
    return top


def told(command: tuple[str, ...], cwd: Path) -> dict[str, object]:
    """Return what becomes known of the commit, however long git takes."""
    found = Revision(command, str(cwd))
    first = found.begin()
    return wait_until(found.look)["commit"] if "commit" in first else {}  # type: ignore[return-value] # it is an object


def test_the_commit_of_the_scripts_folder_wherever_it_is_started_from(git: Git, project: Path, tmp_path: Path) -> None:
    commit = {"folder": str(project), "id": git(project, "rev-parse", "HEAD"), "branch": "main", "dirty": False}
    assert told(("python", str(project / "src" / "train.py")), tmp_path) == commit
    assert told(("python", "-m", "train"), project / "src") == commit
    assert told(("python", "-m", "train"), tmp_path) == {}


def test_a_change_that_is_in_no_commit_is_told_and_a_touch_is_none(git: Git, project: Path) -> None:
    os.utime(project / "src" / "train.py", (1, 1))
    assert told(("python",), project)["dirty"] is False
    (project / "src" / "train.py").write_text("print(2)\n")
    assert told(("python",), project)["dirty"] is True
    git(project, "add", "-A")
    assert told(("python",), project)["dirty"] is True


def test_branches_in_one_file_and_heads_without_a_branch_and_trees_beside_the_first(
    git: Git, project: Path, tmp_path: Path
) -> None:
    commit = git(project, "rev-parse", "HEAD")
    git(project, "pack-refs", "--all")
    assert head(project) == {"id": commit, "branch": "main"}
    git(project, "worktree", "add", "-qb", "feature/x", str(tmp_path / "beside"))
    assert head(tmp_path / "beside") == {"id": commit, "branch": "feature/x"}
    git(project, "checkout", "-q", "--detach")
    assert head(project) == {"id": commit}


@pytest.mark.parametrize("said", ["", "ref: refs/heads/none", "ref: ../../../etc/passwd", "0" * 39, "\x00", "é" * 50])
def test_what_is_no_commit_is_not_told_as_one(tmp_path: Path, said: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text(said)
    assert "id" not in head(tmp_path)
    assert told(("python",), tmp_path) == {}


def test_a_file_called_git_that_leads_nowhere_is_no_project(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere")
    assert head(tmp_path) == {}
    (tmp_path / ".git").unlink()
    os.mkfifo(tmp_path / ".git")
    assert head(tmp_path) == {}
    assert top_of(tmp_path) == tmp_path


def test_a_git_that_hangs_is_ended_and_holds_nobody_up(project: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setattr(revision, "MOMENT", 0.01)
    found = Revision(("python",), str(project))
    found.begin()
    assert found.look() == {}
    process = found._process
    assert process is not None
    assert found.close()["commit"]["dirty"] is None  # type: ignore[call-overload, index] # it is an object
    assert process.returncode == -9


def test_without_git_the_commit_is_known_and_not_whether_it_is_all(project: Path, monkeypatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    found = Revision(("python",), str(project))
    assert found.begin()["commit"]["dirty"] is None  # type: ignore[call-overload, index] # it is an object
    assert found.close() == {}


def test_nothing_in_the_environment_leads_git_elsewhere(project: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_WORK_TREE", "/")
    assert told(("python",), project)["dirty"] is False


def test_a_branch_named_by_a_token_is_masked(git: Git, project: Path) -> None:
    git(project, "checkout", "-qb", "ghp_0123456789abcdef0123")
    assert head(project)["branch"] == "***"


def test_the_first_script_that_is_there_says_where_the_code_is(project: Path, tmp_path: Path) -> None:
    assert script_folder(("torchrun", "gone.py", "src/train.py"), project) == project / "src"
    assert script_folder(("bash", "run.sh"), project) == project


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        ({"SLURM_JOB_ID": "17"}, {"job": {"system": "slurm", "id": "17"}}),
        ({"PBS_JOBID": "8.head"}, {"job": {"system": "pbs", "id": "8.head"}}),
        ({"LSB_JOBID": "5"}, {"job": {"system": "lsf", "id": "5"}}),
        (
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "train-0"},
            {"job": {"system": "kubernetes", "id": "train-0"}},
        ),
        (
            {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "JOB_NAME": "train", "HOSTNAME": "train-0"},
            {"job": {"system": "kubernetes", "id": "train"}},
        ),
        ({"JOB_NAME": "a build", "HOSTNAME": "m8"}, {}),
        ({"SLURM_JOB_ID": ""}, {}),
    ],
)
def test_the_batch_system_and_its_job(environ: dict[str, str], expected: dict[str, object]) -> None:
    assert job(environ) == expected


def test_the_machine_as_a_process_may_use_it(tmp_path: Path) -> None:
    (tmp_path / "module" / "nvidia").mkdir(parents=True)
    (tmp_path / "module" / "nvidia" / "version").write_text("550.54.15\n")
    found = machine(os.getpid(), sys=tmp_path)
    assert found["driver"] == "550.54.15"
    assert found["cpus"] == {"online": os.cpu_count(), "allowed": len(os.sched_getaffinity(0))}
    assert isinstance(found["memory"], int)
    assert "driver" not in machine(os.getpid(), sys=tmp_path / "none")


def test_of_a_process_that_has_ended_the_machine_is_known_all_the_same(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert "cpus" in Facts(ended.pid, ("python",), str(tmp_path)).begin()


def test_a_watch_keeps_all_of_it_and_a_command_that_ends_at_once_what_costs_nothing(
    git: Git, project: Path, tmp_path: Path
) -> None:
    env = {**os.environ, "SLURM_JOB_ID": "17", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    watch = [sys.executable, "-m", "gputune", "watch", "--quiet", "--out"]
    script = project / "src" / "train.py"
    script.write_text("import time; time.sleep(0.5)")
    subprocess.run([*watch, "run", "--", sys.executable, str(script)], cwd=tmp_path, env=env, check=True)
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["host"] == os.uname().nodename
    assert about["job"] == {"system": "slurm", "id": "17"}
    assert about["memory"] > 1 << 28
    commit = {"folder": str(project), "id": git(project, "rev-parse", "HEAD"), "branch": "main"}
    assert about["commit"].items() >= commit.items()
    assert about["commit"]["dirty"] in {True, None}  # None: a machine so busy that git did not come to an end
    subprocess.run([*watch, "brief", "--", "true"], cwd=project, env=env, check=True)
    about = json.loads((project / "brief" / "run.json").read_text())
    assert about["job"] == {"system": "slurm", "id": "17"}
