"""The pace of a recording, by its batches' own clock."""

import sys
from pathlib import Path

import pytest

from gputune.core.events import END, Event, Kind, Record
from gputune.core.sample import Note, Reading
from gputune.core.units import NS
from gputune.experiment.pace import LEAST, Counter

sys.path.insert(0, str(Path(__file__).parents[1]))
from queued import steady

DEVICE = Note(0, {"n": "device"})


def iterator(number: int, loader: int, *, training: bool = True, process: int = 0) -> Event:
    return Event(process, Record(Kind.ITERATOR, 0, 0, 0, number, loader, 0, int(training), 0))


def batches(
    number: int, count: int, each: float, samples: int = 8, *, process: int = 0, end: bool = True
) -> list[Event]:
    """So many batches, one every `each` s."""
    found = [
        Event(process, Record(Kind.BATCH, 0, 0, round((n + 1) * each * NS), number, n, -1, 0, samples))
        for n in range(count)
    ]
    last = Event(process, Record(Kind.BATCH, END, 0, round((count + 1) * each * NS), number, count, -1, 0, 0))
    return [*found, last] if end else found


def built(loader: int, where: str, process: int = 0) -> Note:
    return Note(process, {"n": "loader", "id": loader, "where": where})


def counter(*readings: Reading, where: str = "") -> Counter:
    found = Counter(where)
    found.take(readings)
    return found


def test_samples_after_the_warm_up_over_their_seconds() -> None:
    slow_start = batches(1, 5, 1.0, end=False)
    rest = [e._replace(record=e.record._replace(t1=e.record.t1 + 5 * NS)) for e in batches(1, 20, 0.1)]
    pace = counter(iterator(1, 1), *slow_start, *rest).pace(5)
    assert pace is not None
    assert (round(pace.rate, 6), pace.unit, pace.batches) == (80.0, "samples/s", 20)
    assert [round(block, 6) for block in pace.blocks] == [80.0] * 10


def test_batches_are_counted_where_their_size_is_not_known() -> None:
    pace = counter(iterator(1, 1), *batches(1, 20, 0.5, samples=0)).pace(2)
    assert pace is not None
    assert (round(pace.rate, 6), pace.unit) == (2.0, "batches/s")


def test_evaluation_and_other_loaders_do_not_count() -> None:
    readings = [
        built(1, "t.py:1"), built(2, "t.py:2"),
        iterator(1, 1), iterator(2, 2), iterator(3, 1, training=False),
        *batches(1, 20, 0.1), *batches(2, 40, 0.05), *batches(3, 40, 0.05),
    ]  # fmt: skip
    pace = counter(*readings, where="t.py:1").pace(0)
    assert pace is not None
    assert round(pace.rate, 6) == 80.0


def test_ranks_add_up() -> None:
    both = [event for rank in (0, 1) for event in (iterator(1, 1, process=rank), *batches(1, 20, 0.1, process=rank))]
    pace = counter(*both).pace(0)
    assert pace is not None
    assert round(pace.rate, 6) == 160.0


def test_a_loop_without_a_loader_is_counted_by_its_steps() -> None:
    steps = [Event(0, Record(Kind.STEP, 0, 0, n * NS // 4, 0, 0, 0, 0, 0)) for n in range(20)]
    pace = counter(*steps).pace(2)
    assert pace is not None
    assert (round(pace.rate, 6), pace.unit) == (4.0, "steps/s")


def test_too_few_batches_have_no_pace() -> None:
    assert counter(iterator(1, 1), *batches(1, LEAST + 2, 0.1)).pace(3) is None
    assert counter().pace(0) is None


@pytest.mark.parametrize(("make", "work"), [(0.001, 0.030), (0.040, 0.030)])
def test_a_run_is_timed_by_its_device_as_far_as_that_has_come(make: float, work: float) -> None:
    pace = counter(iterator(1, 1), DEVICE, *steady(make, work).events(90)).pace(5)
    assert pace is not None
    assert pace.rate == pytest.approx(8 / max(make, work), rel=0.02)
    assert pace.seconds == pytest.approx(pace.batches * max(make, work), rel=0.02)


def test_batches_that_only_lie_in_the_launch_queue_have_no_pace() -> None:
    assert counter(iterator(1, 1), DEVICE, *steady(0.001, 1.0).events(40)).pace(0) is None
