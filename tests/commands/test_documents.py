"""`--json` and `--json-file FILE` are the same everywhere: one document, on stdout or in a file."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gputune import cli
from gputune.commands._names import NAMES
from tests.conftest import Run

NONE = {"agent", "completion", "run"}  # these make no document: they serve, print a script, run a program


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in cli.group.list_commands(click.Context(cli.group)):
        command = cli.group.get_command(click.Context(cli.group), name)
        assert command is not None
        yield name, command


def test_every_command_with_a_document_takes_both() -> None:
    for name, command in commands():
        options = {word for param in command.params if isinstance(param, click.Option) for word in param.opts}
        both = {"--json", "--json-file"}
        assert options & both == (set() if name in NONE else both), name


DOCUMENTS = (
    ("explain", "few-workers"),
    ("doctor", "--python", sys.executable),
    ("report", "run"),
    ("tui", "run"),
    ("share", "--procs", "2", "--dry-run", "t.py"),
)


@pytest.mark.parametrize("words", DOCUMENTS, ids=lambda words: words[0])
def test_the_file_gets_what_stdout_would(gputune: Run, tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "t.py").write_text("")
    gputune("watch", "--quiet", "--out", "run", "--", "true")
    command, *rest = words
    printed = gputune(command, "--json", *rest)
    named = gputune(command, "--json-file", "made.json", *rest)
    assert named.returncode == printed.returncode == 0
    assert json.loads((tmp_path / "made.json").read_text()).keys() == json.loads(printed.stdout).keys()
    assert named.stdout.strip() != "" or command == "tui"  # words beside it, as ever; of the screen there are none
    assert not named.stdout.startswith("{")
    dash = gputune(command, "--json-file", "-", *rest)
    assert json.loads(dash.stdout).keys() == json.loads(printed.stdout).keys()
    (tmp_path / "link.json").symlink_to("elsewhere.json")
    linked = gputune(command, "--json-file", "link.json", *rest)
    assert linked.returncode == 0
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "elsewhere.json").exists()


def test_what_was_watched_is_written_under_both_names(gputune: Run, tmp_path: Path) -> None:
    for option, more in (("--json", {}), ("--json-file", {}), ("--json-file", {"GPUTUNE_HZ": "5"})):  # both roads
        gputune("watch", "--quiet", option, "v.json", "--", "sh", "-c", "exit 3", **more)
        assert json.loads((tmp_path / "v.json").read_text())["exit_code"] == 3
        (tmp_path / "v.json").unlink()
    gputune("watch", "--quiet", "--json-file", "near.json", "--", "true", GPUTUNE_JSON="far.json")
    assert ((tmp_path / "near.json").exists(), (tmp_path / "far.json").exists()) == (True, False)
    gputune("watch", "--quiet", "--json", "older.json", "--", "true", GPUTUNE_JSON_FILE="far.json")
    assert ((tmp_path / "older.json").exists(), (tmp_path / "far.json").exists()) == (True, False)
    both = gputune("watch", "--json-file", "a", "--json", "b", "--", "true")
    assert both.returncode == 2
    assert "say two things" in both.stderr
    inner = ("sh", "-c", f"{sys.executable} -m gputune explain few-workers >&2")
    gputune("watch", "--quiet", "--", *inner, GPUTUNE_JSON_FILE="v.json")
    assert json.loads((tmp_path / "v.json").read_text())["exit_code"] == 0  # it is of the watch, and of nothing within


def test_a_file_that_cannot_be_is_refused_before_anything_is_done(gputune: Run, tmp_path: Path) -> None:
    for name in ("no/such/x.json", str(tmp_path)):
        for words in (("explain", "few-workers"), ("watch", "--", "true")):
            done = gputune(words[0], "--json-file", name, *words[1:])
            assert done.returncode == 2
            assert done.stdout == ""
            assert done.stderr.startswith(f"error: `--json-file {name}` ")
    assert not (tmp_path / "gputune-runs").exists()


def test_a_name_without_a_letter_is_refused_wherever_one_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    """`--out "$UNSET"` is no name of a folder, nor is it the current one."""
    asked = 0
    for name, command in commands():
        for param in command.params:
            if isinstance(param, click.Option) and param.metavar in NAMES:
                assert cli.run([name, param.opts[0], ""]) == 2, param.opts
                said = capfd.readouterr()
                assert said.err.startswith(f"error: `{param.opts[0]}` has no value"), said.err
                asked += 1
    assert asked > 20


MISTYPED = (
    ("report", "nosuch"),
    ("prove", "nosuch"),
    ("tui", "nosuch", "--json"),
    ("explain", "nosuch"),
    ("doctor", "--python", "nosuch"),
    ("doctor", "--network", "a:x", "b"),
    ("nodes", "bad:addr:x"),
    ("nodes", "--hostfile", "nosuch"),
    ("nodes", "--json", "--keep", "kept"),
    ("agent", "--listen", "nosuch:port:x"),
    ("share", "--procs", "2", "nosuch.py"),
    ("share", "--jobs", "nosuch.toml"),
    ("sweep-loader", "nosuch.py"),
    ("run", "--with", "nosuch.toml", "--", "true"),
    ("completion", "nosuch"),
    ("watch", "--pid", "999999999"),
)


@pytest.mark.parametrize("words", MISTYPED, ids=" ".join)
def test_what_was_mistyped_leaves_two(gputune: Run, words: tuple[str, ...]) -> None:
    done = gputune(*words)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("error: ")
    assert "\n\nhint: " in done.stderr
    assert done.stdout == ""


def test_a_command_may_be_asked_for_ever_so_often() -> None:
    context = click.Context(cli.group)
    for _ in range(sys.getrecursionlimit()):
        command = cli.group.get_command(context, "report")
    assert command is not None
    (run,) = (param for param in command.params if param.name == "run")
    assert run.type.convert("somewhere", run, context) == Path("somewhere")
