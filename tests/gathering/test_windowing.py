"""The latest part of a run is a run of its own, whatever came before; and asking how it goes changes nothing."""

import pytest

from gputune.core.events import Kind, SpanCode
from gputune.features.windowing import thin, window
from gputune.verdict.building import Overhead, build


def test_a_run_that_changed_shows_only_what_it_is_like_now(story) -> None:
    story.iterator()
    story.epoch(100, wait=1, step=10)
    then = thin(story.features())
    story.epoch(50, wait=30, step=10)
    now = story.features()
    part = window(then, now).processes[0]
    assert (part.batches, part.samples, part.optimizer_steps) == (50, 50 * 32, 50)
    assert part.loop == pytest.approx(2.0)
    assert part.in_loop["loader.wait"] == pytest.approx(1.5)
    assert sum(part.ledger.values()) == pytest.approx(part.wall)
    (loader,) = part.loaders
    assert set(loader.waits) == {0.03}
    assert (len(loader.waits), len(loader.steps)) == (50, 50)
    assert loader.wait_total == pytest.approx(1.5)


def test_the_window_is_told_as_any_run_is(story) -> None:
    story.iterator()
    story.epoch(100)
    then = thin(story.features())
    story.epoch(50)
    told = build(window(then, story.features()), [], overhead=Overhead())
    assert told.batches == 50
    assert sum(row.share for row in told.ledger) == pytest.approx(1)
    assert told.samples_per_s == pytest.approx(32 / 0.011, rel=0.03)


def test_pauses_and_places_are_those_since(story) -> None:
    story.note(n="site", id=7, where="train.py:60", what="torch.save")
    story.iterator()
    story.epoch(30)
    story.span(SpanCode.CHECKPOINT, 500, a=7)
    then = thin(story.features())
    story.epoch(30)
    story.span(SpanCode.CHECKPOINT, 200, a=7)
    story.epoch(1)
    (place,) = window(then, story.features()).processes[0].places
    assert (place.count, place.seconds) == (1, pytest.approx(0.2))


def test_backward_passes_are_those_since(story) -> None:
    story.iterator()
    for each in (8, 3):
        for _ in range(30):
            story.epoch(1)
            story.record(Kind.BACKWARD, story.at - each, story.at)
        if each == 8:
            then = thin(story.features())
    assert window(then, story.features()).processes[0].backward == pytest.approx(30 * 0.003)


def test_a_device_is_as_busy_as_it_was_since(story) -> None:
    story.iterator()
    for seconds, busy in ((10, 1.0), (10, 0.2)):
        for _ in range(seconds):
            story.epoch(10, wait=1, step=99)
            story.sample("gpu.busy", busy, "0")
        if busy == 1.0:
            then = thin(story.features())
    (device,) = window(then, story.features()).devices
    assert device.busy == pytest.approx(0.2, abs=0.02)


def test_a_process_that_came_since_is_whole(story) -> None:
    story.iterator()
    story.epoch(30)
    then = thin(story.features())
    story.process(1, pid=200)
    story.loader(1)
    story.iterator(9, process=1)
    for _ in range(30):
        story.batch(9, process=1)
    assert [p.batches for p in window(then, story.features()).processes] == [0, 30]


def test_asking_how_a_run_goes_changes_nothing(story_of) -> None:
    asked, left = story_of(), story_of()
    for told in (asked, left):
        told.iterator()
        told.epoch(20)
        began = told.at
        told.open(Kind.BATCH, began)
        if told is asked:
            assert told.features(began + 900).processes[0].ledger["loader.wait"] == pytest.approx(0.020 + 0.9)
        told.batch(wait=2000)
        told.step()
        told.epoch(20)
    assert asked.features() == left.features()


def test_what_was_open_is_over_when_its_record_is_there(story) -> None:
    story.iterator()
    story.epoch(20)
    story.open(Kind.SPAN, story.at, code=SpanCode.CHECKPOINT)
    story.span(SpanCode.CHECKPOINT, 1500)
    story.epoch(20, step=100)
    assert story.features().processes[0].ledger["checkpoint"] == pytest.approx(1.5)


def test_an_evaluation_under_way_is_no_training_and_asking_twice_counts_it_once(story) -> None:
    story.loader(id=2, where="train.py:90")
    story.iterator()
    story.epoch(20)
    began = story.at
    story.iterator(2, 2)
    story.epoch(10, 2)
    story.open(0, 0, since=began)
    for _ in range(2):
        loaders = {loader.where: loader for loader in story.features().processes[0].loaders}
        assert (loaders["train.py:41"].training, loaders["train.py:90"].training) == (True, False)
    story.open(0, 0)
    assert all(loader.training for loader in story.features().processes[0].loaders)


def test_a_wait_under_way_counts_for_the_gate(story) -> None:
    story.iterator()
    story.epoch(20, wait=1)
    story.open(Kind.BATCH, story.at)
    look = story.gatherer.look(story.ns(story.at + 5000))
    assert look.waited == pytest.approx(5.02)
    assert look.processes == {0}


def test_a_loader_that_gave_nothing_since_is_no_part_of_it(story) -> None:
    story.iterator()
    story.epoch(100)
    then = thin(story.features())
    assert window(then, story.features()).processes[0].loaders == ()
