"""The one drawing of the house is true: what it shows is what is imported, and every way leads down."""

from collections.abc import Callable
from types import ModuleType

import pytest

pytest.importorskip("tomllib", reason="reading pyproject.toml needs Python 3.11")
LONGEST = 13  # rooms on the longest way down
SIBLINGS = 8  # rooms on one floor


@pytest.fixture(scope="module")
def floors(docs_script: Callable[[str], ModuleType]) -> ModuleType:
    """The script that draws the page."""
    return docs_script("floors")


def test_the_page_shows_the_floors_as_they_are(floors: ModuleType) -> None:
    assert floors.PAGE.read_text(encoding="utf-8") == floors.page(), "`make floors` draws them anew"


def test_every_import_leads_down_or_to_a_neighbour_and_none_in_a_circle(floors: ModuleType) -> None:
    at = {room: number for number, rooms in enumerate(floors.floors()) for room in rooms}
    assert [(room, to) for room, below in floors.arrows().items() for to in below if at[to] < at[room]] == []
    assert all(floors.way_down(room) for room in floors.arrows())  # a circle is a ValueError


def test_no_floor_is_crowded_and_no_way_down_is_long(floors: ModuleType) -> None:
    assert max(len(rooms) for rooms in floors.floors()) <= SIBLINGS
    assert max(len(floors.way_down(room)) for room in floors.arrows()) <= LONGEST


def test_a_circle_is_told(floors: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floors, "arrows", lambda: {"a": {"b"}, "b": {"a"}})
    with pytest.raises(ValueError, match="a → b → a"):
        floors.way_down("a")
