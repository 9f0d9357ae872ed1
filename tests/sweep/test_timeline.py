"""Rates of a stretch of time, by when batches came."""

import pytest

from gputune.events import END, Event, Kind, Record, SpanCode
from gputune.sample import Guest, Note
from gputune.sweep.timeline import KEPT, Timeline
from gputune.units import NS

PLACE = "train.py:9"


def batch(process: int, t: float, samples: int = 8, *, iterator: int = 1, code: int = 0) -> Event:
    return Event(process, Record(Kind.BATCH, code, int(t * NS) - 1000, int(t * NS), iterator, 0, 0, 0, samples))


def timeline(*processes: int, workers: int = 0, size: int | None = 8, grad: int = 1) -> Timeline:
    """A timeline that knows one loader, iterated once by each of these processes."""
    made = Timeline()
    for process in processes:
        made.take(
            [
                Guest(process, 100 + process, 1, 0, 0, "main", "ring"),
                Note(process, {"n": "loader", "id": 1, "where": PLACE, "num_workers": workers, "batch_size": size}),
                Event(process, Record(Kind.ITERATOR, 0, 0, 0, 1, 1, 0, grad, 0)),
            ]
        )
    return made


def test_the_rate_is_samples_over_seconds_after_the_warm_up() -> None:
    found = timeline(0)
    found.take([batch(0, 5.0 + 0.1 * n) for n in range(4)])
    found.take([batch(0, 6.0 + 0.01 * n) for n in range(60)])
    rates = found.rates(PLACE, 10)
    assert len(rates) == 10
    assert rates == pytest.approx([800.0] * 10)


def test_ranks_add_up() -> None:
    found = timeline(0, 1)
    for process, gap in ((0, 0.01), (1, 0.02)):
        found.take([batch(process, 1 + gap * n) for n in range(60)])
    assert sum(found.rates(PLACE, 5)) / 10 == pytest.approx(1200.0, rel=0.02)
    assert found.batches(PLACE) == 60


def test_a_stretch_begins_where_it_is_said_to() -> None:
    found = timeline(0)
    found.take([batch(0, 1 + 0.1 * n) for n in range(30)])
    found.take([batch(0, 10 + 0.01 * n) for n in range(30)])
    assert found.rates(PLACE, 2, int(9 * NS)) == pytest.approx([800.0] * 10)
    assert found.rates(PLACE, 0, most=20) == pytest.approx([80.0] * 9)
    assert found.counted(PLACE, int(9 * NS)) == 30


def test_an_evaluation_in_between_is_not_the_setting_s_doing() -> None:
    found = timeline(0)
    found.take([batch(0, 1 + 0.01 * n) for n in range(30)])
    for code in (SpanCode.CHECKPOINT, SpanCode.EVALUATION):  # the one in the other
        begin, end = (3, 4) if code == SpanCode.CHECKPOINT else (1.3, 21.29)
        found.take([Event(0, Record(Kind.SPAN, code, int(begin * NS), int(end * NS), 0, 0, 0, 0, 0))])
    found.take([batch(0, 21.3 + 0.01 * n) for n in range(30)])
    assert sum(found.rates(PLACE, 5)) / 10 == pytest.approx(800.0, rel=0.1)
    assert found.counted(PLACE, int(20 * NS)) == 30


def test_too_few_batches_give_no_rate() -> None:
    found = timeline(0)
    found.take([batch(0, 1 + 0.1 * n) for n in range(8)])
    assert found.rates(PLACE, 0) == ()
    assert found.rates("elsewhere.py:1", 0) == ()


def test_evaluations_and_ends_are_no_batches() -> None:
    found = timeline(0, grad=0)
    found.take([batch(0, 1 + 0.1 * n) for n in range(30)])
    assert found.batches() == 0
    found = timeline(0)
    found.take([batch(0, 1.0, code=END), batch(0, 2.0)])
    assert found.batches() == 1


def test_batches_of_no_known_size_count_as_the_loader_says_or_as_one() -> None:
    for size, each in ((8, 8.0), (None, 1.0)):
        found = timeline(0, size=size)
        found.take([batch(0, 1 + 0.1 * n, 0) for n in range(30)])
        assert found.rates(PLACE, 0)[0] == pytest.approx(10 * each)


def test_queues_and_processes_are_as_they_were_told_last() -> None:
    found = timeline(0, 1, workers=4)
    assert found.queue(PLACE) == 8
    assert found.queue("elsewhere.py:1") == 0
    assert found.pids == {0: 100, 1: 101}
    found.take([Guest(1, 101, 1, 0, 5, "main", "ring")])
    assert found.pids == {0: 100}


def test_processes_that_have_ended_are_waited_for_no_more() -> None:
    found = timeline(0, 1)
    found.take([batch(process, 1 + 0.1 * n) for n in range(30) for process in (0, 1)])
    found.take([Guest(0, 100, 1, 0, 5 * NS, "main", "ring")])
    found.take([batch(1, 10 + 0.1 * n) for n in range(30)])
    assert found.living(PLACE) == {1}
    assert found.counted(PLACE, 9 * NS) == 30
    assert found.rates(PLACE, 2, found.since(PLACE, 20))[0] == pytest.approx(80.0)
    assert found.since(PLACE, 1000) == NS - 1


def test_the_times_of_a_long_training_find_room() -> None:
    found = timeline(0)
    for first in range(0, 2 * KEPT, 1000):
        found.take([batch(0, 1 + 0.001 * n) for n in range(first, first + 1000)])
    assert found.batches(PLACE) >= 2 * KEPT
    assert found.rates(PLACE, 5, found.since(PLACE, 2000))[0] == pytest.approx(8000.0)
    assert len(found._lines[PLACE][0].ends) <= KEPT
