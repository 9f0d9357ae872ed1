"""The command line: one shape for every error, help from the files themselves, settings from three places."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputune import cli

GPUTUNE = (sys.executable, "-m", "gputune")


def gputune(*arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    command = (*GPUTUNE, *arguments)
    environment = {**os.environ, **env}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=environment, timeout=60)


def hz_of(run_folder) -> float:
    return json.loads((run_folder() / "run.json").read_text())["hz"]


@pytest.mark.parametrize(
    ("arguments", "says", "hint"),
    [
        (["watch"], "no command to watch", "`gputune watch -- python train.py`"),
        (["watch", "--hz", "0", "--", "true"], "`--hz 0` is not a rate", "--hz 10"),
        (["watch", "--hz", "-3", "--", "true"], "`--hz -3` is not a rate", "--hz 10"),
        (["watch", "--hz", "nan", "--", "true"], "`--hz nan` is not a rate", "--hz 10"),
        (["watch", "--hz", "101", "--", "true"], "`--hz 101` is not a rate", "--hz 10"),
        (["watch", "--hz", "x", "--", "true"], "invalid value for `--hz`", "gputune watch --help"),
        (["watch", "--price", "free", "--", "true"], "`--price free` is not a price", "--price 2.50"),
        (["watch", "--price", "-1", "--", "true"], "`--price -1` is not a price", "--price 2.50"),
        (["watch", "--fail-under", "0", "--", "true"], "`--fail-under 0` is not a percentage", "--fail-under 70"),
        (["watch", "--fail-under", "nan", "--", "true"], "`--fail-under nan` is not a percentage", "--fail-under 70"),
        (["watch", "--stop-when", "hungry", "--", "true"], "is not a condition", "--stop-when starving:120"),
        (["watch", "--stop-when", "starving:0", "--", "true"], "is not a condition", "--stop-when starving:120"),
        (["watch", "--try", "--tune", "--", "true"], "goes back to the script's own settings", "watch --try -- CMD"),
        (["watch", "--try", "--pid", "1"], "need a command that gputune starts", "--pid 1"),
        (["watch", "--try", "--prove", "top", "--", "true"], "`--try` and `--prove` do not go together", "--prove top"),
        (["watch", "--tune=fast", "--", "true"], "`--tune fast` is not what may be tuned", "--tune=identical"),
        (["watch", "--tune", "python", "x.py"], "`--tune python` is not what may be tuned", "`--tune -- CMD`"),
        (["watch", "--tune=", "--", "true"], "is not what may be tuned", "--tune=identical"),
        (["watch", "--tune", "--pid", "1"], "need a command that gputune starts", "--pid 1"),
        (
            ["watch", "--prove", "few-worker", "--", "true"],
            "no advisor is named `few-worker`",
            "did you mean `few-workers`",
        ),
        (["watch", "--tune", "--prove", "top", "--", "true"], "do not go together", "gputune watch --tune -- CMD"),
        (["watch", "--for", "3s", "--", "true"], "`--for` goes with `--pid` only", "--pid PID --for 60s"),
        (["watch", "--pid", "x"], "invalid value for `--pid`", "gputune watch --help"),
        (["watch", "--pid", "1", "--for", "soon"], "`--for soon` is not a time", "--for 60s"),
        (["watch", "--pid", "1", "--", "true"], "a command was given, too", "gputune watch --pid 1"),
        (["watch", "--pid", "1", "--fail-under", "70"], "need a command that gputune starts", "--pid 1"),
        (["watch", "--pid", "0"], "there is no process 0", "pgrep"),
        (["watch", "--pid", "999999999"], "there is no process 999999999", "pgrep"),
        (["watch", "--hzz", "3", "--", "true"], "no such option `--hzz`", "did you mean `--hz`?"),
        (["watch", "--max-size", "3", "--", "true"], "`--max-size 3` is not a size", "--max-size 512MiB"),
        (["watch", "--json", "no/such/file", "--", "true"], "lies in", "`-` for stdout"),
        (["watch", "--out", "full", "--", "true"], "`full` is not empty", "--out full-2"),
        (["watch", "--out", "run", "--", "true"], "`run` already holds a run", "--out run-2"),
        (["watch", "--out", "file", "--", "true"], "`file` is not a folder", "--out"),
        (["watch", "--out", "file/below", "--", "true"], "`file/below` lies in what is not a folder", "--out run-1"),
        (["watch", "--out", "file/far/below", "--", "true"], "lies in what is not a folder", "--out run-1"),
        (["watch", "--out", "--", "true"], "`--out` has no value", "--out NAME"),
        (["watch", "--json", "--", "true"], "`--json` has no value", "--json NAME"),
        (["watsh"], "no such command `watsh`", "did you mean `gputune watch`?"),
        (["--no-such"], "no such option `--no-such`", "gputune --help"),
        (["watch", "--out"], "option `--out` requires an argument", "gputune watch --help"),
        (["completion"], "missing argument", "gputune completion --help"),
    ],
)
def test_what_was_mistyped_is_said_with_a_hint(tmp_path, arguments, says, hint) -> None:
    for name in ("full/x", "run/run.json", "file"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    done = gputune(*arguments)
    assert done.returncode == 2
    first, between, last = done.stderr.rstrip("\n").partition("\n\n")
    assert between
    assert first.startswith("error: ")
    assert says in first
    assert last.startswith("hint: ")
    assert hint in last
    assert done.stdout == ""
    assert not (tmp_path / "gputune-runs").exists()


def test_every_command_is_listed_and_helps_with_an_example() -> None:
    listed = gputune("--help").stdout
    for name in cli.group.list_commands(None):
        assert f"  {name} " in listed
        helped = gputune(name, "--help")
        assert helped.returncode == 0
        assert "Example" in helped.stdout


def test_the_version_is_said_on_stdout() -> None:
    done = gputune("--version")
    assert done.stdout.startswith("gputune ")
    assert done.returncode == 0


def test_an_option_can_come_from_a_file(run_folder, tmp_path) -> None:
    (tmp_path / "gputune.toml").write_text("hz = 5\n[report]\njson = true\n")
    gputune("watch", "--", "true")
    assert hz_of(run_folder) == 5


def test_a_table_of_the_command_wins_over_the_top_of_the_file(run_folder, tmp_path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.gputune]\nhz = 5\n[tool.gputune.watch]\nhz = 6\nmax-size='1GiB'\n")
    gputune("watch", "--", "true")
    assert hz_of(run_folder) == 6


def test_the_environment_wins_over_the_file(run_folder, tmp_path) -> None:
    (tmp_path / "gputune.toml").write_text("hz = 5\n")
    gputune("watch", "--", "true", GPUTUNE_HZ="7")
    assert hz_of(run_folder) == 7


def test_the_commands_own_name_wins_over_the_common_one(run_folder) -> None:
    gputune("watch", "--", "true", GPUTUNE_HZ="7", GPUTUNE_WATCH_HZ="8")
    assert hz_of(run_folder) == 8


def test_a_flag_wins_over_the_environment(run_folder) -> None:
    gputune("watch", "--hz", "9", "--", "true", GPUTUNE_HZ="7")
    assert hz_of(run_folder) == 9


def test_a_file_in_a_folder_above_counts_and_the_nearest_wins(run_folder, tmp_path, monkeypatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "gputune.toml").write_text("hz = 5\n")
    (tmp_path / "a" / "gputune.toml").write_text("hz = 4\n")
    (tmp_path / "a" / "b" / "pyproject.toml").write_text("[tool.other]\n")
    monkeypatch.chdir(tmp_path / "a" / "b")
    gputune("watch", "--out", str(tmp_path / "gputune-runs" / "one"), "--", "true")
    assert hz_of(run_folder) == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hz = [", "cannot be read"),
        ("hz = 0\n", "`hz = 0` in `{file}` is not a rate"),
        ("hz = 'x'\n", "`hz = x` in `{file}`: `x` is not a valid float"),
        ("max-size = 3\n", "`max-size = 3` in `{file}` is not a size"),
        ("quiet = 'maybe'\n", "`quiet = maybe` in `{file}`: `maybe` is not a valid boolean"),
        ("json = ['a']\n", "`{file}` sets `json` to what is no text"),
        ("[watch]\njson = true\n", "`{file}` sets `json` to a truth"),
    ],
)
def test_a_file_that_is_wrong_is_named_before_the_command_starts(tmp_path, text, says) -> None:
    (tmp_path / "gputune.toml").write_text(text)
    done = gputune("watch", "--", "touch", "started")
    assert done.returncode == 2
    assert says.format(file=tmp_path / "gputune.toml") in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"GPUTUNE_HZ": "0"}, "`GPUTUNE_HZ=0` is not a rate"),
        ({"GPUTUNE_WATCH_HZ": "x", "GPUTUNE_HZ": "5"}, "`GPUTUNE_WATCH_HZ=x`: `x` is not a valid float"),
        ({"GPUTUNE_MAX_SIZE": "3"}, "`GPUTUNE_MAX_SIZE=3` is not a size"),
        ({"GPUTUNE_QUIET": "maybe"}, "`GPUTUNE_QUIET=maybe`: `maybe` is not a valid boolean\n"),
    ],
)
def test_a_variable_that_is_wrong_is_named(tmp_path, environ, says) -> None:
    done = gputune("watch", "--", "touch", "started", **environ)
    assert done.returncode == 2
    assert says in done.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hzz = 3\n", "sets `hzz`, which is no option; did you mean `hz`?"),
        ("[watch]\nmax-sise = 3\n", "sets `max-sise`, which is no option; did you mean `max-size`?"),
        ("[wacth]\nhz = 3\n", "has a table `wacth`, which is no command; did you mean `watch`?"),
        ("zzzzzz = 3\n", "sets `zzzzzz`, which is no option\n"),
        ('"\\u001b[31m" = 3\n', "which is no option"),
    ],
)
def test_a_key_that_nobody_knows_is_said_once_and_the_command_runs(tmp_path, text, says) -> None:
    (tmp_path / "gputune.toml").write_text(text)
    done = gputune("watch", "--", "sh", "-c", "echo out; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert done.stderr.count(says) == 1
    assert done.stderr.rpartition("gputune: ")[2].startswith("`")  # after the verdict
    asked = gputune("explain")
    assert asked.returncode == 0
    assert "\x1b" not in done.stderr + asked.stderr
    assert asked.stderr.startswith("warning: ") is ("[watch]" not in text)


def test_a_key_of_another_command_is_no_mistake(tmp_path) -> None:
    (tmp_path / "gputune.toml").write_text("json = true\nhz = 5\n[watch]\nquiet = true\n")
    assert gputune("watch", "--", "true").stderr == ""
    assert not (tmp_path / "True").exists()
    assert gputune("explain", "few-workers").stderr == ""


def test_settings_of_a_run_are_not_those_of_a_run_inside_it(tmp_path) -> None:
    inner = (*GPUTUNE, "watch", "--quiet", "--", "true")
    done = gputune("watch", "--quiet", "--", *inner, GPUTUNE_OUT="one", GPUTUNE_JSON="one.json")
    assert done.returncode == 0
    assert json.loads((tmp_path / "one.json").read_text())["command"][-1] == "true"
    assert len(list((tmp_path / "gputune-runs").glob("*/run.json"))) == 1


def test_the_unexpected_is_one_sentence_and_a_file_with_the_rest(monkeypatch, capsys, tmp_path) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise RuntimeError("odd \x1b[31m thing")

    monkeypatch.setattr(cli.group, "main", stumble)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert cli.run(["watch"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "error: gputune stumbled over something unexpected: RuntimeError: odd \\x1b[31m thing\n\nhint: "
    )
    (file,) = tmp_path.glob("gputune-*.txt")
    assert str(file) in said
    assert "Traceback" in file.read_text()
    assert file.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("what", ["explain", "--version", "--help"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_is_full_is_no_mistake_of_ours(what, unbuffered) -> None:
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            (*GPUTUNE, what), check=False, stdout=full, stderr=subprocess.PIPE, text=True, env=environ
        )
    assert done.returncode == 1
    assert (
        done.stderr == "error: the output cannot be written: No space left on device\n\nhint: look at where it goes\n"
    )


def test_a_reader_that_has_enough_is_no_error() -> None:
    done = subprocess.run(
        ("bash", "-c", f"{sys.executable} -m gputune completion bash | true; echo ${{PIPESTATUS[0]}}"),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""


def test_help_needs_none_of_the_commands() -> None:
    place = str(Path(cli.__file__).parent.parent)
    program = "import sys; sys.argv = ['gputune', '--help']; from gputune.__main__ import main\n"
    program += "try: main()\nexcept SystemExit: print('\\n', *sys.modules)"
    loaded = subprocess.run((sys.executable, "-c", program), check=True, capture_output=True, text=True, cwd=place)
    assert not [name for name in loaded.stdout.split() if name.startswith("gputune.commands.")]
