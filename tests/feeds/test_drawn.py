"""A run that has ended is drawn from its columns: as a replay of every record draws it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gputune.feeds import drawn
from gputune.feeds.board import Board
from gputune.feeds.history import Historian
from gputune.feeds.rows import History
from gputune.recording import readings
from gputune.recording.about import read

BEGAN = 10**12  # as in conftest.py


def replayed(folder: Path) -> tuple[History, Board]:
    """Return what the readings of all ticks come to."""
    historian, board = Historian(BEGAN), Board()
    for tick in readings(folder):
        historian.take(tick)
        board.take(tick)
    return historian.history(), board


def test_the_history_is_that_of_a_replay(finished: Callable[..., Path]) -> None:
    folder = finished()
    found = drawn.history(folder, 8.0, 1, {})
    expected, _ = replayed(folder)
    assert (found.step, found.unit, len(found.busy)) == (1.0, expected.unit, 8)
    assert found.queue[1:7] == expected.queue[1:7]
    for name in ("busy", "wait", "rate"):
        shown, told = (getattr(each, name)[1:7] for each in (found, expected))
        assert shown == pytest.approx(told, rel=0.05), name


def test_the_machine_is_as_its_last_readings_say(finished: Callable[..., Path]) -> None:
    folder = finished()
    board = Board()
    for tick in drawn.ending(folder, read(folder), {}):
        board.take(tick)
    _, expected = replayed(folder)
    assert board.node("m8", "recorded") == expected.node("m8", "recorded")
    assert board.node("m8", "recorded").devices[0].name == "a card"


def test_a_run_in_which_nothing_was_read_has_no_history(finished: Callable[..., Path]) -> None:
    folder = finished(0)
    found = drawn.history(folder, 0.0, 1, {})
    assert (found.busy, found.wait, found.rate, found.queue, found.gaps) == ((), (), (), (), ())
    assert [tick for tick in drawn.ending(folder, {}, {}) if tick] == []
