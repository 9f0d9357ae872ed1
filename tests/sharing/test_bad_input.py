"""What cannot be meant is one sentence, a hint and status 2; nothing was started, and nobody sees a traceback."""

import os
from pathlib import Path

import pytest

from gputune import cli
from gputune.sharing.member import Member
from gputune.sharing.refusals import refusing
from gputune.sharing.spec import TaskSpec
from gputune.sharing.tasks import Task

ONE = ("--procs", "2")


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text("print(1)\n")
    return "train.py"


@pytest.mark.parametrize(
    ("arguments", "says", "hint"),
    [
        (("--procs", "0", "train.py"), "`--procs 0` is not a number of processes: 1 or more, or `auto`", "--procs 3"),
        (("--procs", "-1", "train.py"), "is not a number of processes", "--procs 3"),
        (("--procs", "1.5", "train.py"), "is not a number of processes", "--procs 3"),
        (("--procs", "many", "train.py"), "is not a number of processes", "--procs 3"),
        (("train.py",), "how many processes?", "--procs auto"),
        (ONE, "no task to run", "train.py"),
        ((*ONE, "nowhere.py"), "`nowhere.py` does not exist", "spelling"),
        ((*ONE, "train.sh"), "`train.sh` is no Python script", "-- train.sh"),
        ((*ONE, "-m"), "`-m` names no module", "-m package.train"),
        ((*ONE, "--at-once", "0", "train.py"), "is not a number of processes", "--at-once 2"),
        ((*ONE, "--gpus", "0,0", "train.py"), "is not a list of different GPUs", "--gpus 0,1"),
        ((*ONE, "--gpu", "0", "--gpus", "1", "train.py"), "say two things", "several"),
        ((*ONE, "--min-gain", "0", "train.py"), "`--min-gain 0` is not a gain", "--min-gain 1.1"),
        ((*ONE, "--min-gain", "nan", "train.py"), "is not a gain", "--min-gain 1.1"),
        ((*ONE, "--metric-regex", "(", "train.py"), "is no regular expression", "--metric-regex"),
        ((*ONE, "--metric-regex", "it/s", "train.py"), "has no group", "--metric-regex"),
        ((*ONE, "--trial", "-1", "train.py"), "is not a time", "--trial 10s"),
        (("--procs", "auto", "--trial", "0", "train.py"), "`--trial 0` measures none", "--procs 3"),
        ((*ONE, "--stall-timeout", "0", "train.py"), "is not a time", "--stall-timeout 10m"),
        ((*ONE, "--memory", "lots", "train.py"), "is not a size", "--memory 6GB"),
        ((*ONE, "--weights", "1,0", "train.py"), "is not a list of numbers above 0", "--weights 2,1,1"),
        ((*ONE, "--weights", "1,2,3", "train.py"), "3 weights were given", "one for each process"),
        ((*ONE, "--on-failure", "later", "train.py"), "is not `continue`, `stop`", "restart=2"),
        ((*ONE, "--index-flag", "a b", "train.py"), "is not the name of an option", "--index-flag"),
        ((*ONE, "--index-env", "1A", "train.py"), "is not the beginning of a variable's name", "--index-env SHARD"),
        ((*ONE, "--quewe", "train.py"), "no such option `--quewe`", "did you mean `--queue`?"),
        (("--jobs", "none.toml"), "`none.toml` cannot be read", "docs/share.md"),
        (("--jobs", "jobs.toml", "train.py"), "`--jobs` says what runs and how often", "leave TASK"),
        (("--jobs", "jobs.toml", "--memory", "6GB"), "with `--jobs`, `--memory` is said in the file", "`memory`"),
        (("--procs", "auto", "--", "a b", "--", "c d"), "`--procs auto` is for copies of one task", "--queue"),
        (("--", "a 'b", "--", "c d"), "is no command", "quote it"),
        ((*ONE, "--guard", "stop", "train.py"), "invalid value for '--guard'", "--help"),
        ((*ONE, "--max-workers", "-1", "train.py"), "invalid value for '--max-workers'", "--help"),
    ],
)
def test_options_that_cannot_be_meant(  # noqa: PLR0917 - fixtures
    script, capsys, tmp_path, arguments, says, hint
) -> None:
    assert cli.run(["share", *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    head, _, tail = told.err.partition("\n\nhint: ")
    assert head.startswith("error: ")
    assert says.replace("'", "`") in head.replace("'", "`")
    assert hint in tail
    assert not (tmp_path / "gputune-runs").exists()


def test_logs_that_cannot_be_written_are_refused_before_anything_starts(share, tmp_path) -> None:
    (tmp_path / "file").touch()
    done = share("--procs", "2", "--log-dir", "file/logs", "--", "sh", "-c", "touch started")
    assert done.returncode == 2, done.stderr
    assert "logs cannot be written to `file/logs`: Not a directory" in done.stderr
    assert "hint: name another folder: `--log-dir DIR`" in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("Error: No such option: --process_index", 2),  # click
        ("FATAL Flags parsing error: Unknown command line flag 'process_index'", 1),  # absl
    ],
)
def test_flags_that_a_task_does_not_take_are_said_once(share, tmp_path, said, status) -> None:
    (tmp_path / "deaf.py").write_text(f"import sys\nprint({said!r}, file=sys.stderr)\nsys.exit({status})\n")
    done = share("--procs", "3", "--trial", "0", "deaf.py")
    assert done.returncode == 2, done.stderr
    assert done.stderr.count(said.splitlines()[-1]) == 1
    assert "hint: `--no-index-args` leaves them out" in done.stderr


@pytest.mark.parametrize("policy", ["restart", "stop"])
def test_a_refusal_comes_before_what_the_policy_would_do(share, tmp_path, policy) -> None:
    (tmp_path / "deaf.py").write_text("import argparse; argparse.ArgumentParser().parse_args()")
    done = share("--procs", "2", "--trial", "0", "--on-failure", policy, "deaf.py")
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: the task does not take the flags")
    assert "starts again" not in done.stderr
    assert "the others are ended" not in done.stderr


PARSER = """
import argparse, os, sys
parser = argparse.ArgumentParser()
parser.add_argument("--process_index", type=int)
parser.add_argument("--process_num", type=int)
"""


@pytest.mark.parametrize(
    ("first", "status"),
    [
        ("print('called with', sys.argv); sys.exit(1)", 1),
        ("print(parser.parse_args()); print('my own failure'); sys.exit(2)", 2),
        ("parser.parse_args(); open('nowhere/process_index1.csv')", 1),
        ("parser.add_argument('--data', required=True); parser.parse_args()", 2),
        ("print('warning: unknown arguments are ignored:', sys.argv[1:]); sys.exit(3)", 3),
    ],
)
def test_a_failure_that_only_names_the_flag_is_the_tasks_own_and_the_others_go_on(
    share, tmp_path, document, first, status
) -> None:
    (tmp_path / "broken.py").write_text(f"{PARSER}if os.environ['GPUTUNE_PROCESS_INDEX'] == '0':\n    {first}\n")
    done = share("--procs", "2", "--trial", "0", "broken.py")
    assert done.returncode == status, done.stderr
    assert "--no-index-args" not in done.stderr
    assert [row["exit_code"] for row in document()["procs"]] == [status, 0]


@pytest.mark.parametrize(
    ("said", "refuses"),
    [
        ("train.py: error: unrecognized arguments: --process_index 0 --process_num 3", True),
        ("Error: No such option: --process_index Did you mean --process_id?", True),
        ("Error: No such option '--process_num'.", True),
        ("Unrecognized options: --process-index", True),
        ("getopt.GetoptError: option --process_index not recognized", True),
        ("sleep: unrecognized option '--process_index=0'", True),
        ("unknown option -- process_index", True),
        ("flag provided but not defined: -process_index", True),
        ("FATAL Flags parsing error: Unknown command line flag 'process_index'", True),
        ("ERROR: Could not consume arg: --process_index", True),
        ("node: bad option: --process_index", True),
        ("error: argument --process_index: invalid int value: 'x'", False),
        ("TypeError: main() got an unexpected keyword argument 'process_index'", False),
        ("error: unrecognized arguments: --process_index_file x", False),
        ("KeyError: unknown dataset in ['train.py', '--process_index', '0']", False),
    ],
)
def test_a_refusal_is_a_line_that_says_so_of_the_flag(tmp_path, said, refuses) -> None:
    log = tmp_path / "process0.log"
    log.write_text(f"usage: train.py [--process_index N]\n{said}\nTry --help\n")
    job = TaskSpec(argv=("train.py",))
    task = Task(slot=0, number=0, of=1, job=job, label="", argv=job.argv, env={}, cwd="", log=str(log))
    found = refusing(Member(task), "--process_index", "--process_num")
    assert found == (said if refuses else "")


@pytest.mark.parametrize("command", [("sleep", "2"), ("true",)])
def test_without_a_card_they_run_on_the_cpus_and_that_is_said(share, simgpu, monkeypatch, command) -> None:
    simgpu()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = share("--procs", "2", "--trial", "0", "--no-index-args", "--", *command)
    assert done.returncode == 0, done.stderr
    assert "there is no GPU here: they ran on the CPUs" in done.stderr
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_weights_without_a_card_are_said_to_count_for_nothing(share, simgpu, monkeypatch) -> None:
    simgpu()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = share("--procs", "2", "--weights", "2,1", "--trial", "0", "--no-index-args", "--", "true")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("there is no card here: they count for nothing") == 1


def test_a_folder_that_was_named_is_one_runs_alone(share, tmp_path) -> None:
    quick = ("--procs", "1", "--trial", "0", "--no-index-args", "--out", "run-1", "--", "true")
    assert share(*quick).returncode == 0
    assert (tmp_path / "run-1" / "taken").exists()  # the mark that only one of several can make
    again = share(*quick)
    assert again.returncode == 2
    assert again.stderr.startswith("error: `run-1` already holds a run")
