"""Rates of a stretch of time, by when batches came."""

import sys
from pathlib import Path
from statistics import harmonic_mean

import pytest

from gputune.core.events import Event, Kind, Record, SpanCode
from gputune.core.sample import Guest, Note
from gputune.core.units import NS
from gputune.experiment.line import BLOCKS
from gputune.experiment.timeline import PASSES, Timeline
from gputune.features.concurrent_loaders import Company

sys.path.insert(0, str(Path(__file__).parents[1]))
from queued import Loop, steady

from gputune.core.events import BatchCode
from gputune.experiment.line import BATCHES_KEPT

PLACE = "train.py:9"


def batch(process: int, t: float, samples: int = 8, *, iterator: int = 1, code: int = 0, wait: float = 1e-6) -> Event:
    return Event(process, Record(Kind.BATCH, code, int((t - wait) * NS), int(t * NS), iterator, 0, 0, 0, samples))


def evaluating(*, step: float, every: int, make: float = 0.01, queue: int = 12, batches: int = 1000) -> list[Event]:
    """A loop with one worker, which evaluates for a second now and then; times are of one batch.

    The worker makes the next batch while there is room in its queue, during evaluations as well.
    """
    made, there, found = [1.0], [1.0], []
    for n in range(1, batches):
        asks = there[-1] + step
        if n % every == 0:
            found.append(
                Event(0, Record(Kind.SPAN, SpanCode.EVALUATION, int(asks * NS), int((asks + 1) * NS), *[0] * 5))
            )
            asks += 1
        made.append(max(made[-1], there[n - queue] if n >= queue else 0.0) + make)
        there.append(max(asks, made[n]))
        found.append(batch(0, there[n], wait=there[n] - asks))
    return found


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


def loader(number: int, samples: int, **more: object) -> Note:
    return Note(0, {"n": "loader", "id": number, "where": PLACE, "num_workers": 0, "samples": samples, **more})


def test_a_line_that_builds_a_loader_for_validation_too_is_shared_and_known_by_the_one_that_trains() -> None:
    made = Timeline()
    made.take([loader(1, 2000, length=125), Event(0, Record(Kind.ITERATOR, 0, 0, 0, 1, 1, 0, 1, 0))])
    assert not made.shared(PLACE)
    made.take([loader(2, 200, length=13), Event(0, Record(Kind.ITERATOR, 0, 0, 0, 2, 2, 0, 0, 0))])
    made.take([batch(0, 1.0), batch(0, 2.0, iterator=2), batch(0, 3.0, iterator=2)])
    assert made.shared(PLACE)
    made.take([batch(0, 4.0)])
    assert made.company(PLACE) == Company(2, 2, 1)
    assert made.loaders[PLACE]["length"] == 125
    assert (made.batches(PLACE), made.apart) == (2, {PLACE: 2})


def test_a_line_is_shared_with_loaders_that_were_built_and_not_iterated_yet() -> None:
    made = Timeline()
    made.take([loader(1, 2000, beside=1, idle=1)])
    assert made.shared(PLACE)
    assert made.company(PLACE) == Company(2, 2, 1)


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


def test_bursts_do_not_count_for_more_than_their_time() -> None:
    found = timeline(0)
    gaps = [0.0005] * 12 + [0.005] * 54
    found.take([batch(0, 1 + sum(gaps[: n + 1])) for n in range(len(gaps))])
    assert harmonic_mean(found.rates(PLACE, 1)) == pytest.approx(65 * 8 / sum(gaps[1:]))


@pytest.mark.parametrize("step", [0.001, 0.009, 0.012])  # it makes one in 10 ms
def test_batches_that_were_made_in_an_evaluation_are_not_the_rate_of_the_loader(step: float) -> None:
    found, truth = timeline(0), 8 / max(0.01, step)
    found.take(evaluating(step=step, every=200))
    assert harmonic_mean(found.rates(PLACE, 14)) == pytest.approx(truth, rel=0.01)


@pytest.mark.parametrize("step", [0.001, 0.012])
def test_a_visit_that_has_an_evaluation_in_it_is_as_fast_as_one_that_has_none(step: float) -> None:
    found, truth = timeline(0), 8 / max(0.01, step)
    found.take(evaluating(step=step, every=200))
    around = found._lines[PLACE][0].ends[170]  # it evaluates 30 batches later
    assert found.settled(PLACE, 14, around)
    assert harmonic_mean(found.rates(PLACE, 14, around, most=90)) == pytest.approx(truth, rel=0.01)


def test_just_after_an_evaluation_there_is_no_rate_to_be_known_yet() -> None:
    found = timeline(0)
    found.take(evaluating(step=0.001, every=200, batches=215))
    assert not found.settled(PLACE, 14, found._lines[PLACE][0].ends[182])
    assert found.settled(PLACE, 14, 0)


@pytest.mark.parametrize("step", [0.001, 0.009, 0.012])
def test_a_visit_that_begins_just_after_an_evaluation_is_no_faster_than_any_other(step: float) -> None:
    found, truth = timeline(0), 8 / max(0.01, step)
    found.take(evaluating(step=step, every=200, batches=400))
    after = found._lines[PLACE][0].ends[202]
    assert found.settled(PLACE, 14, after) is (step < 0.01)  # 280 batches without a wait tell as much
    assert harmonic_mean(found.rates(PLACE, 14, after)) == pytest.approx(truth, rel=0.01)


def test_a_queue_that_was_filled_before_a_visit_is_waited_for() -> None:
    found = timeline(0)
    found.take(evaluating(step=0.009, every=200, batches=290))  # it runs dry at the 320th
    after = found._lines[PLACE][0].ends[202]
    assert not found.settled(PLACE, 14, after)
    assert found.settled(PLACE, 14, found._lines[PLACE][0].ends[100])


def test_evaluations_between_which_no_queue_runs_dry_leave_the_rate_of_the_loop() -> None:
    found = timeline(0)
    found.take(evaluating(step=0.001, every=10))
    assert harmonic_mean(found.rates(PLACE, 14)) == pytest.approx(8000, rel=0.1)


def test_workers_that_start_after_an_evaluation_count() -> None:
    found = timeline(0)
    found.take([batch(0, 1 + 0.01 * n) for n in range(30)])
    found.take([Event(0, Record(Kind.SPAN, SpanCode.EVALUATION, int(1.3 * NS), int(2.3 * NS), *[0] * 5))])
    found.take([Event(0, Record(Kind.ITERATOR, 0, 0, 0, 1, 1, 0, 1, 0))])  # the same one, reset
    found.take([batch(0, 2.8 + 0.01 * n, wait=0.49 if n == 0 else 1e-6) for n in range(30)])
    assert harmonic_mean(found.rates(PLACE, 1)) == pytest.approx(59 * 8 / (0.29 + 0.51 + 0.29), rel=0.01)


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
    found.take([batch(0, 1.0, code=BatchCode.END), batch(0, 2.0)])
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
    for first in range(0, 2 * BATCHES_KEPT, 1000):
        found.take([batch(0, 1 + 0.001 * n) for n in range(first, first + 1000)])
    assert found.batches(PLACE) >= 2 * BATCHES_KEPT
    assert found.rates(PLACE, 5, found.since(PLACE, 2000))[0] == pytest.approx(8000.0)
    assert len(found._lines[PLACE][0].ends) <= BATCHES_KEPT


def test_whole_passes_hold_as_many_starts_wherever_the_first_one_begins() -> None:
    """60 batches of 10 ms an epoch, and 0.4 s to start its workers: a second."""
    found = timeline(0)
    found.take([batch(0, 1 + n // 60 + 0.4 + 0.01 * (n % 60)) for n in range(600)])
    for begin in (1.0, 2.2, 2.5, 2.99):
        rates = found.passes(PLACE, 6, int(begin * NS), 60)
        assert len(rates) >= PASSES
        assert rates == pytest.approx([60 * 8.0] * len(rates), rel=1e-6)
    assert len(found.passes(PLACE, 6, int(10.0 * NS), 60)) == BLOCKS  # of no whole one, whatever is there


def test_of_batches_until_the_end_of_a_start_whole_passes_count_too() -> None:
    found = timeline(0)
    found.take([batch(0, 1 + n // 60 + 0.4 + 0.01 * (n % 60)) for n in range(290)])
    found.take([Guest(0, 100, 1, 0, 1, "main", "ring")])
    assert found.living(PLACE) == set()
    assert found.passes(PLACE, 6, 0, 60) == pytest.approx([60 * 8.0] * 4, rel=1e-6)


def test_a_training_is_known_to_go_on_after_a_pass_once_the_next_one_has_begun() -> None:
    found = timeline(0)
    found.take([batch(0, 1.0), batch(0, 1.1)])
    assert not found.again(PLACE)
    found.take([batch(0, 1.2, code=BatchCode.END)])
    assert not found.again(PLACE)
    found.take([Event(0, Record(Kind.ITERATOR, 0, 0, 0, 2, 1, 0, 1, 0))])
    assert found.again(PLACE)
    assert found.batches(PLACE) == 2


# by the device's time


def test_a_host_that_runs_ahead_is_not_the_pace_of_its_device() -> None:
    loop, found = steady(make=0.001, work=0.030), timeline(0)
    found.take(loop.events(60))
    assert found.batches(PLACE) == 60
    assert found.counted(PLACE, 0) < 20  # the device has come no further
    rates = found.rates(PLACE, 5)
    assert harmonic_mean(rates) == pytest.approx(8 / 0.030, rel=0.02)


@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize(("make", "work"), [(0.001, 0.030), (0.040, 0.030), (0.040, 0.0), (0.029, 0.030)])
def test_the_slower_of_loader_and_device_is_the_rate(make: float, work: float, every: int) -> None:
    loop, found = steady(make, work, every=every), timeline(0)
    found.take(loop.events(400))
    assert harmonic_mean(found.rates(PLACE, 10)) == pytest.approx(8 / max(make, work), rel=0.02)


def switched(before: tuple[float, float], after: tuple[float, float], at: int = 200) -> tuple[float, int, int]:
    """The rate after a switch of (make, work) at a batch, how many batches later, and how far the device was behind."""
    loop = Loop(lambda n: (after if n >= at else before)[0], lambda n: (after if n >= at else before)[1])
    found = timeline(0)
    events = loop.events(at + 400)
    begin = None
    for event in events:
        found.take([event])
        if event.record.kind != Kind.BATCH or len(loop.there) <= at:
            continue
        served = round(loop.there[at] * NS)
        begin = found.caught_up(PLACE, served) if event.record.t1 >= served else None
        if begin is not None and found.counted(PLACE, begin) > 6 + 40:
            return harmonic_mean(found.passes(PLACE, 6, begin, 0)), event.record.b - at, begin - served
    raise AssertionError("it was never caught up")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((0.001, 0.042), (0.001, 0.030)),  # copies from pinned memory: the queue is full of slow ones
        ((0.001, 0.030), (0.060, 0.030)),  # too few workers: the device works off what was queued
        ((0.060, 0.030), (0.001, 0.030)),  # enough of them: the queue fills
        ((0.001, 0.030), (0.033, 0.030)),  # slowly
    ],
)
def test_a_visit_has_nothing_of_the_settings_before_it(before: tuple[float, float], after: tuple[float, float]) -> None:
    rate, later, behind = switched(before, after)
    assert rate == pytest.approx(8 / max(after), rel=0.03)
    assert later < 200
    assert behind >= 0


def test_ranks_have_a_device_each() -> None:
    loops, found = [steady(0.001, work, process=rank) for rank, work in enumerate((0.030, 0.031))], timeline(0, 1)
    found.take([event for loop in loops for event in loop.events(100)])
    assert harmonic_mean(found.rates(PLACE, 5)) == pytest.approx(8 / 0.030 + 8 / 0.031, rel=0.02)


def test_all_workers_are_at_work_once_more_came_than_they_make_ahead() -> None:
    found = timeline(0, workers=3)  # two batches ahead each
    assert not found.delivered("")
    found.take([batch(0, float(n)) for n in range(6)])
    assert not found.delivered(PLACE)
    assert not found.delivered("")
    found.take([batch(0, 7.0)])
    assert found.delivered(PLACE)
    assert found.delivered("")
