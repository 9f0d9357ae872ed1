"""A file of options is heeded where nobody else can have written it, and starts nothing from outside of the project."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import click
import pytest

from gputune import cli
from gputune.commands._names import NAMES
from gputune.core import config
from gputune.core.config import Given, given
from gputune.core.errors import BadUsage

Ask = Callable[[Path], Given]
OTHER = 54321  # a user that nobody is


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Ask what files set for a command with options of every kind."""
    known: Mapping[str, bool] = {"hz": False, "python": False, "remote": False, "json": False, "quiet": True}
    return lambda start: given("watch", known, start, dict)


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Give a file to somebody else, also where only root could: what the kernel says of it is changed."""
    fstat = os.fstat
    owned: set[int] = set()

    def changed(descriptor: int) -> os.stat_result:
        found = fstat(descriptor)
        return os.stat_result((*found[:4], OTHER, *found[5:10])) if found.st_ino in owned else found

    monkeypatch.setattr(config.os, "fstat", changed)
    return lambda file: owned.add(file.stat().st_ino)


def test_a_file_of_ones_own_counts(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "gputune.toml").write_text("hz = 5\npython = 'p'\n")
    assert ask(tmp_path) == Given(tmp_path / "gputune.toml", {"hz": 5, "python": "p"}, ())


@pytest.mark.parametrize("name", ["gputune.toml", "pyproject.toml"])
def test_somebody_elses_file_is_ignored_and_said_and_the_next_one_counts(
    ask: Ask, theirs: Callable[[Path], None], tmp_path: Path, name: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    text = "hz = 5\npython = './evil'\n"
    (here / name).write_text(text if name == "gputune.toml" else f"[tool.gputune]\n{text}")
    (tmp_path / "gputune.toml").write_text("hz = 7\n")
    theirs(here / name)
    found = ask(here)
    assert found.options == {"hz": 7}
    assert found.unknown == (f"`{here / name}` is ignored: it is user {OTHER}'s",)


def test_somebody_elses_file_holds_nobody_up_however_large_it_is(
    ask: Ask, theirs: Callable[[Path], None], tmp_path: Path
) -> None:
    with (tmp_path / "gputune.toml").open("wb") as file:
        file.truncate(3 << 20)
    theirs(tmp_path / "gputune.toml")
    found = ask(tmp_path)
    assert found.unknown == (f"`{tmp_path / 'gputune.toml'}` is ignored: it is user {OTHER}'s",)


@pytest.mark.parametrize("mode", [0o646, 0o666, 0o664])
def test_a_file_that_others_may_write_is_ignored_and_said(
    ask: Ask, tmp_path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "_is_private", lambda gid: False)
    file = tmp_path / "gputune.toml"
    file.write_text("python = './evil'\n")
    file.chmod(mode)
    found = ask(tmp_path)
    assert not found.options
    assert found.unknown == (f"`{file}` is ignored: others may write it (`chmod go-w` makes it yours)",)


def test_a_file_that_ones_own_group_may_write_counts(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_is_private", lambda gid: True)
    (tmp_path / "gputune.toml").write_text("hz = 5\n")
    (tmp_path / "gputune.toml").chmod(0o664)
    assert ask(tmp_path).options == {"hz": 5}


def test_programs_and_places_to_write_come_from_the_project_alone(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "gputune.toml").write_text("hz = 5\npython = 'p'\nremote = 'r'\njson = 'j'\n")
    below = tmp_path / "project" / "src"
    below.mkdir(parents=True)
    found = ask(below)
    assert found.options == {"hz": 5}
    assert len(found.unknown) == 3
    assert "`python`, which counts only in the project's own folder" in found.unknown[0]
    (tmp_path / "project" / ".git").mkdir()
    assert ask(below).options == {"hz": 5}
    (tmp_path / "project" / "gputune.toml").write_text("python = 'q'\n")
    assert ask(below) == Given(tmp_path / "project" / "gputune.toml", {"python": "q"}, ())


def test_a_file_without_an_end_holds_nobody_up(ask: Ask, tmp_path: Path) -> None:
    with (tmp_path / "gputune.toml").open("wb") as file:
        file.truncate(1 << 40)
    found = ask(tmp_path)
    assert (found.options, len(found.unknown)) == ({}, 1)
    assert "is ignored: it has more than 1 MiB" in found.unknown[0]
    (tmp_path / "gputune.toml").write_text("a = " + "[" * 100_000)
    with pytest.raises(BadUsage, match="cannot be read"):
        ask(tmp_path)


READ_ONLY = {"runs", "file", "against", "hostfile"}  # name what is read, by us and as data


def test_whatever_names_a_program_or_a_place_counts_in_the_project_alone() -> None:
    """Of each command that there is: an option that is added is asked about here."""
    context = click.Context(cli.group)
    named = set()
    for name in cli.group.list_commands(context):
        command = cli.group.get_command(context, name)
        assert command is not None
        options = [param for param in command.params if isinstance(param, click.Option)]
        named |= {o.name for o in options if o.metavar in {*NAMES, "COMMAND", "ADDRESS", "HOSTS"}}
    assert named - READ_ONLY <= config.OWN_ONLY
