"""`gputune share`: what is typed is understood or refused in one sentence, before anything starts."""

import json
from pathlib import Path

import pytest

SCRIPT = "import sys; print(sys.argv[1:])"


@pytest.mark.parametrize(
    ("arguments", "says", "hint"),
    [
        (("--procs", "0", "t.py"), "`--procs 0` is not a number of processes", "like `--procs 3`"),
        (("--procs", "99999999", "t.py"), "99999999 processes do not fit into this machine", "--procs auto"),
        (("--procs", "2", "python", "t.py"), "`python` is no Python script", "-- python"),
        (("--procs", "2", "--log-dir", "t.py", "t.py"), "logs cannot be written to `t.py`", "--log-dir DIR"),
        (("--procs", "2", "--index-flag", "shard", "t.py"), "`--index-flag shard` is not the name of an option", ""),
        (("--jobs", "bad.toml"), "line 3: a job has no `memroy`", "did you mean `memory`?"),
        (("--procs", "2", "--", "'"), "was not found in PATH", ""),
        (("--nonsense", "--procs", "2", "t.py"), "no such option `--nonsense`", ""),
    ],
)
def test_what_cannot_be_is_one_sentence_with_a_hint(gputune, tmp_path, arguments, says, hint) -> None:
    """One of each kind, in a process of its own; tests/sharing/test_bad_input.py has the options one by one."""
    (tmp_path / "t.py").write_text(SCRIPT)
    (tmp_path / "bad.toml").write_text('[[jobs]]\ncommand = "a"\nmemroy = "6GB"\n')
    done = gputune("share", *arguments)
    assert done.returncode in {2, 127}, done.stderr
    assert says in done.stderr
    assert hint in done.stderr
    assert done.stderr.count("error: ") == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_task_that_does_not_know_the_flags_says_so_once(gputune, tmp_path) -> None:
    (tmp_path / "t.py").write_text(
        "import argparse; p = argparse.ArgumentParser(); p.add_argument('--lr'); p.parse_args()"
    )
    for trial in ("5", "0"):
        done = gputune("share", "--procs", "3", "--trial", trial, "t.py", "--lr", "1")
        assert done.returncode == 2
        assert done.stderr.count("unrecognized arguments: --process_index 0") <= 1
        assert done.stderr.count("unrecognized arguments") == 1
        assert "hint: `--no-index-args` leaves them out" in done.stderr


def test_everything_after_the_task_is_its_own(gputune, tmp_path) -> None:
    (tmp_path / "t.py").write_text(SCRIPT)
    for arguments in (("t.py", "--json", "-m", "--", "x"), ("-m", "t", "--json", "-m", "--", "x")):
        done = gputune("share", "--procs", "1", "--trial", "0", "--log-dir", "l", *arguments)
        assert done.returncode == 0, done.stderr
        said = (tmp_path / "l" / "process0.log").read_text()
        assert said == "['--json', '-m', '--', 'x', '--process_index', '0', '--process_num', '1']\n"


def test_the_plan_is_printed_and_nothing_starts(gputune, tmp_path) -> None:
    (tmp_path / "t.py").write_text("open('ran', 'w')")
    done = gputune("share", "--procs", "3", "--index-env", "SHARD", "--dry-run", "t.py", "--token", "secret")
    assert done.returncode == 0, done.stderr
    assert "GPUTUNE_PROCESS_INDEX=2" in done.stdout
    assert "SHARD_NUM=3" in done.stdout
    assert "secret" not in done.stdout
    assert "host memory: " in done.stdout
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "gputune-runs").exists()


def test_settings_come_from_a_file_and_the_environment(gputune, tmp_path) -> None:
    (tmp_path / "t.py").write_text(SCRIPT)
    (tmp_path / "gputune.toml").write_text('[share]\nprocs = 2\ntrial = "0"\nno-index-args = true\n')
    done = gputune("share", "--json", "t.py", GPUTUNE_SHARE_LOG_DIR="l")
    assert done.returncode == 0, done.stderr
    assert [row["exit_code"] for row in json.loads(done.stdout)["procs"]] == [0, 0]
    assert (tmp_path / "l" / "process1.log").read_text() == "[]\n"


def test_jobs_come_from_a_file(gputune, tmp_path) -> None:
    text = '[[jobs]]\ncommand = "sh -c \'echo $X\'"\nname = "a"\ncount = 2\nenv = { X = "7" }\nindex-args = false\n'
    (tmp_path / "jobs.toml").write_text(text + '[[jobs]]\ncommand = ["sh", "-c", "exit 6"]\n')
    done = gputune("share", "--jobs", "jobs.toml", "--json")
    assert done.returncode == 6, done.stderr
    rows = json.loads(done.stdout)["procs"]
    assert [(row["name"], row["exit_code"]) for row in rows] == [("a-0", 0), ("a-1", 0), ("job1", 6)]
    assert Path(rows[1]["log"]).read_text() == "7\n"


def test_help_has_an_example(gputune) -> None:
    assert "gputune share --procs 3 train.py" in gputune("share", "--help").stdout


def test_the_way_in_knows_which_options_have_no_value() -> None:
    import click

    from gputune.__main__ import SHARE_FLAGS
    from gputune.commands.share import command

    flags = [option for option in command.params if isinstance(option, click.Option) and option.is_flag]
    assert {name for option in flags for name in option.opts} == SHARE_FLAGS


@pytest.mark.parametrize(
    ("arguments", "direct"),
    [
        ("--ray auto --procs 2 t.py", True),
        ("--procs 2 --follow --json --ray=auto -- cmd", True),
        ("--procs 2 t.py --ray auto", False),
        ("--procs 2 -m t --ray auto", False),
        ("--procs 2 --queue t.py", False),
        ("--log-dir --ray --procs 2 t.py", False),
    ],
)
def test_a_cluster_s_run_has_no_supervisor(arguments: str, direct: bool) -> None:
    from gputune.__main__ import _is_direct

    assert _is_direct(["share", *arguments.split()]) is direct


def test_a_cluster_is_typed_and_not_configured(gputune, tmp_path) -> None:
    (tmp_path / "t.py").write_text(SCRIPT)
    (tmp_path / "gputune.toml").write_text('[share]\nprocs = 2\nray = "auto"\n')
    done = gputune("share", "t.py")
    assert (done.returncode, "`--ray` was not given as an option" in done.stderr) == (2, True), done.stderr
