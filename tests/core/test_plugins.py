"""Rooms find their members by the folder."""

import sys

import pytest

from gputune.core import plugins


@pytest.fixture
def room(tmp_path, monkeypatch):
    folder = tmp_path / "a_room"
    folder.mkdir()
    for name in ("__init__", "_helper", "second_one", "first"):
        (folder / f"{name}.py").write_text(f"NAME = {name!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "a_room"
    for name in [name for name in sys.modules if name.split(".")[0] == "a_room"]:
        del sys.modules[name]


def test_members_are_the_files_without_underscore(room) -> None:
    assert plugins.names(room) == ("first", "second_one")


def test_nothing_is_imported_by_listing(room) -> None:
    plugins.names(room)
    assert "a_room.first" not in sys.modules
    assert plugins.load(room, "first").NAME == "first"


def test_the_id_is_the_file_name_with_dashes() -> None:
    assert plugins.identity("few_workers") == "few-workers"
