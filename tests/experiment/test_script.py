"""What is typed becomes a command, and everything after the script's name is the script's own."""

import sys
from pathlib import Path

import pytest

from gputune.core.errors import BadUsage
from gputune.experiment.script import script_of


def test_a_script_runs_in_the_interpreter_that_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    found = script_of(["train.py", "--lr", "1", "--", "-m", "x.py"], None, sys.executable)
    assert found.command == (sys.executable, "train.py", "--lr", "1", "--", "-m", "x.py")
    assert (found.cwd, found.name) == (str(tmp_path), "train.py")


def test_a_module_and_a_command_are_what_they_are() -> None:
    assert script_of(["--x"], "pkg.train", sys.executable).command == (sys.executable, "-m", "pkg.train", "--x")
    assert script_of(["pkg.train"], "pkg.train", sys.executable).name == "train"
    assert script_of(["sh", "-c", "true"], None, "no-python").command == ("sh", "-c", "true")


@pytest.mark.parametrize(
    ("words", "module", "says"),
    [
        ([], None, "no script"),
        ([""], None, "no script"),
        (["none.py"], None, "does not exist"),
        (["no-such-program"], None, "was not found"),
        ([], "--lr", "no module"),
    ],
)
def test_what_cannot_be_run_is_said(words: list[str], module: str | None, says: str) -> None:
    with pytest.raises(BadUsage, match=says):
        script_of(words, module, sys.executable)


def test_an_interpreter_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    with pytest.raises(BadUsage, match="`no-python` was not found"):
        script_of(["train.py"], None, "no-python")
