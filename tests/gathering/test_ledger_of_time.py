"""The ledger is a partition: whatever the spans, each second counts once, for the innermost span that covers it."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gputune.core.units import NS
from gputune.gathering.ledger import ABSORBS, MERGE_AT, Ledger

HELD = settings(derandomize=True, deadline=None)  # the same examples everywhere, on slow machines as well
NAMES = ("loader.start", "loader.wait", "checkpoint", "logging", "evaluation")


@dataclass
class Node:
    """A span of whole seconds, and the spans inside it."""

    name: str
    t0: int
    t1: int
    inside: list["Node"] = field(default_factory=list)


@some.composite
def forests(draw, t0: int = 0, t1: int = 60, depth: int = 3) -> list[Node]:
    """Return properly nested spans between t0 and t1, in the order in which they begin; they may touch."""
    found = []
    at = t0
    while at < t1 and draw(some.booleans()):
        begin = draw(some.integers(at, t1 - 1))
        end = draw(some.integers(begin, t1))
        inside = draw(forests(begin, end, depth - 1)) if depth and end > begin else []
        found.append(Node(draw(some.sampled_from(NAMES)), begin, end, inside))
        at = end if end > begin else end + 1
    return found


def tell(ledger: Ledger, nodes: list[Node]) -> None:
    """Report spans as a program does: each when it ends."""
    for node in nodes:
        tell(ledger, node.inside)
        ledger.span(node.name, node.t0 * NS, node.t1 * NS)


def painted(nodes: list[Node], seconds: int) -> list[str]:
    """Return the name that each second belongs to, by painting a timeline from the outside in."""
    line = ["step"] * seconds
    paint(nodes, line, "")
    return line


def paint(nodes: list[Node], line: list[str], absorber: str) -> None:
    for node in nodes:
        stays = not absorber or node.name in ABSORBS[absorber] or node.name == absorber
        line[node.t0 : node.t1] = [node.name if stays else absorber] * (node.t1 - node.t0)
        paint(node.inside, line, node.name if node.name in ABSORBS else absorber)


@HELD
@given(forests())
def test_every_second_counts_once_for_its_innermost_span(nodes) -> None:
    ledger = Ledger(0)
    tell(ledger, nodes)
    totals = ledger.totals(60 * NS)
    line = painted(nodes, 60)
    assert sum(totals.values()) == pytest.approx(60)
    assert {n: s for n, s in totals.items() if s} == {n: line.count(n) for n in set(line)}


@HELD
@given(forests())
def test_inclusive_time_counts_a_name_once_however_often_it_is_nested_in_itself(nodes) -> None:
    ledger = Ledger(0)
    tell(ledger, nodes)
    for name, ns in ledger.inclusive.items():
        covered = set()
        stack = [(node, "") for node in nodes]
        while stack:
            node, absorber = stack.pop()
            if node.name == name and (not absorber or name in ABSORBS[absorber] or name == absorber):
                covered |= set(range(node.t0, node.t1))
            stack += [(child, node.name if node.name in ABSORBS else absorber) for child in node.inside]
        assert ns == len(covered) * NS


@HELD
@given(some.lists(some.tuples(some.sampled_from(NAMES), some.integers(0, 50), some.integers(0, 50)), max_size=30))
def test_adds_up_even_when_spans_overlap_as_they_must_not(spans) -> None:
    ledger = Ledger(0)
    for name, a, b in sorted(spans, key=lambda s: max(s[1], s[2])):
        ledger.span(name, min(a, b) * NS, max(a, b) * NS)
    totals = ledger.totals(50 * NS)
    assert all(seconds >= 0 for seconds in totals.values())
    assert sum(totals.values()) == pytest.approx(50)


def test_what_began_before_the_process_was_met_is_cut_off() -> None:
    ledger = Ledger(10 * NS)
    ledger.span("checkpoint", 5 * NS, 12 * NS)
    assert ledger.totals(20 * NS) == pytest.approx({"checkpoint": 2, "step": 8})


def test_inside_next_everything_is_waiting_but_the_start_of_workers() -> None:
    ledger = Ledger(0)
    ledger.span("logging", 1 * NS, 2 * NS)
    ledger.span("loader.start", 3 * NS, 5 * NS)
    claim = ledger.span("loader.wait", 0, 8 * NS)
    assert ledger.totals(10 * NS) == pytest.approx({"loader.wait": 6, "loader.start": 2, "step": 2})
    assert "logging" not in claim.self_ns
    assert ledger.inclusive["logging"] == 0


def test_an_evaluation_knows_how_often_each_loader_was_asked_inside_it() -> None:
    ledger = Ledger(0)
    ledger.span("loader.wait", 0, 1 * NS, loader=7)
    for k in range(3):
        ledger.span("loader.wait", (2 + 2 * k) * NS, (3 + 2 * k) * NS, loader=8)
    claim = ledger.span("evaluation", 2 * NS, 9 * NS)
    assert claim.batches == {8: 3}
    assert claim.self_ns == {"loader.wait": 3 * NS, "evaluation": 4 * NS}


def test_a_span_that_was_told_in_parts_while_it_went_on_counts_once() -> None:
    ledger = Ledger(0)
    ledger.span("evaluation", 2 * NS, 4 * NS)
    ledger.span("evaluation", 2 * NS, 6 * NS)
    last = ledger.span("evaluation", 2 * NS, 9 * NS)
    assert ledger.inclusive["evaluation"] == 7 * NS
    assert last.fresh == 3 * NS


def test_a_span_that_is_told_late_leaves_alone_what_came_after_it() -> None:
    ledger = Ledger(0)
    ledger.span("loader.wait", 2 * NS, 3 * NS)
    ledger.span("checkpoint", 6 * NS, 8 * NS)
    claim = ledger.span("evaluation", 1 * NS, 5 * NS)
    assert claim.self_ns == {"loader.wait": 1 * NS, "evaluation": 3 * NS}
    outer = ledger.span("logging", 5 * NS, 9 * NS)
    assert outer.self_ns == {"checkpoint": 2 * NS, "logging": 2 * NS}


def test_covered_says_what_spans_explain_of_an_interval() -> None:
    ledger = Ledger(0)
    ledger.span("logging", 1 * NS, 3 * NS)
    ledger.span("logging", 5 * NS, 6 * NS)
    assert ledger.covered(2 * NS, 10 * NS) == 2 * NS
    assert ledger.covered(7 * NS, 10 * NS) == 0


def test_a_day_of_spans_is_kept_in_bounded_room_and_adds_up() -> None:
    ledger = Ledger(0)
    count = 10 * MERGE_AT
    for k in range(count):
        ledger.span("loader.wait", 4 * k, 4 * k + 1)
    totals = ledger.totals(4 * count)
    assert len(ledger._open) <= MERGE_AT
    assert totals["loader.wait"] * NS == pytest.approx(count)
    assert totals["step"] * NS == pytest.approx(3 * count)


def test_a_very_long_evaluation_still_owns_its_seconds_and_its_batches() -> None:
    ledger = Ledger(0)
    for k in range(9_000):
        ledger.span("loader.wait", 4 * k, 4 * k + 1, loader=1)
    begin = 4 * 9_000
    for k in range(9_000):
        ledger.span("loader.wait", begin + 4 * k, begin + 4 * k + 1, loader=2)
    claim = ledger.span("evaluation", begin, begin + 4 * 9_000)
    assert ledger.self_ns["evaluation"] == pytest.approx(3 * 9_000, rel=0.05)
    assert claim.batches[2] == pytest.approx(9_000, rel=0.05)


@pytest.mark.parametrize("late", [(0, 10), (2, 10), (0, 1), (1, 15)])
def test_a_span_that_is_told_after_one_that_ended_later_counts_no_second_twice(late: tuple[int, int]) -> None:
    ledger = Ledger(0)
    ledger.span("logging", 1 * NS, 15 * NS)
    ledger.span("checkpoint", late[0] * NS, late[1] * NS)
    ledger.span("evaluation", 10 * NS, 20 * NS)
    totals = ledger.totals(20 * NS)
    assert min(totals.values()) >= 0
    assert sum(totals.values()) == pytest.approx(20)
