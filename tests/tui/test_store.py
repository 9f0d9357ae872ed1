"""What is known of nodes, and their order."""

from collections.abc import Callable
from typing import Any

import pytest

from gputune.feeds.rows import Update
from gputune.tui.store import TRAIL, Store, matches, ordered

Make = Callable[..., Any]


def test_rows_come_change_and_go(node: Make, run: Make) -> None:
    store = Store()
    store.take(Update(until=1, nodes=(node("a"), node("b")), runs=(run(),), note="one"))
    store.take(Update(until=2, nodes=(node("a", rate=1.0),), gone=("b",), runs_gone=("m8/run",)))
    assert list(store.nodes) == ["a"]
    assert store.nodes["a"].rate == 1.0
    assert store.runs == {}
    assert len(store.trails["a"]) == 2
    assert "b" not in store.trails
    assert store.note == ""


def test_the_past_of_a_node_is_bounded(node: Make) -> None:
    store = Store()
    for k in range(3 * TRAIL):
        store.take(Update(until=k, nodes=(node(),)))
    assert len(store.trails["m8"]) == TRAIL


@pytest.mark.parametrize(
    ("by", "turned", "names"),
    [
        ("name", False, "abcd"),
        ("name", True, "dcba"),
        ("pace", False, "cabd"),
        ("pace", True, "bacd"),
        ("wait", False, "abcd"),
        ("link", False, "dabc"),
    ],
)
def test_what_is_not_known_comes_last_whichever_way(node: Make, by: str, turned: bool, names: str) -> None:
    nodes = [node("d", rate=None, link="down"), node("b", rate=1.0), node("c", rate=9.0), node("a", rate=5.0)]
    assert "".join(each.name for each in ordered(nodes, by, turned=turned)) == names


def test_groups_stand_together(node: Make) -> None:
    nodes = [node("a", rack="r2"), node("b", rack="r1"), node("c", rack="r2")]
    assert [each.name for each in ordered(nodes, group="rack")] == ["b", "a", "c"]


def test_every_word_of_a_filter_must_match(node: Make) -> None:
    assert matches(node("gpu-17"), "GPU-1 few")
    assert matches(node(), "h200 job-7")
    assert not matches(node(), "h200 r2")


def test_live_runs_come_first(node: Make, run: Make) -> None:
    store = Store()
    store.take(Update(until=1, runs=(run(id="1"), run(id="2", state="live"), run(id="3", started=2e6))))
    assert [row.id for row in store.runs_of(node(runs=("1", "2", "3", "4")))] == ["2", "3", "1"]
