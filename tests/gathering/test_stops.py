"""A training that somebody stops for an hour is judged as if it had never been stopped."""

from collections.abc import Callable

import pytest

from gputune.core.events import SpanCode

HOUR = 3_600_000.0


def told(story, where: str, *, stopped: float) -> None:
    """Tell of a run that is stopped (for 0 ms: not at all) in the middle of `where`."""

    def stop(here: str) -> float:
        """Return what the stop adds to what goes on; its notes come before the record of that, as in a real run."""
        if here != where or not stopped:
            return 0
        began = story.at + 2
        story.note(-1, n="stopped", pid=100, t=story.ns(began))
        story.sample("cpu.main", 0.0, at=began + stopped / 2)
        story.late = lambda: story.note(-1, n="continued", pid=100, t=story.ns(began + stopped))
        return stopped

    def go_on() -> None:
        story.late()
        story.late = lambda: None

    story.late: Callable[[], None] = lambda: None
    story.loader(num_workers=2)
    story.at += 5 + stop("startup")
    go_on()
    story.iterator(took=20, workers=2)
    story.epoch(20)
    story.sample("cpu.main", 1.0)
    story.span(SpanCode.CHECKPOINT, 30 + stop("checkpoint"))
    story.epoch(2)
    go_on()
    story.batch(wait=5 + stop("wait"))
    story.step(10)
    story.batch()
    go_on()  # the recorder's beat is slower than the training's
    story.step(10 + stop("step"))
    story.batch()
    story.step(10)
    go_on()
    story.epoch(20)


@pytest.fixture
def features(story_of) -> Callable[..., object]:
    def make(where: str, stopped: float):
        story = story_of()
        told(story, where, stopped=stopped)
        return story.features()

    return make


@pytest.mark.parametrize("where", ["startup", "checkpoint", "wait", "step"])
def test_a_stop_is_counted_nowhere(features, where) -> None:
    run = features(where, HOUR)
    (process,), (same,) = run.processes, features(where, 0).processes
    assert (process.stopped, run.stopped) == (HOUR / 1e3, HOUR / 1e3)
    for name in ("wall", "loop", "ledger", "inclusive", "in_loop", "cpu"):
        assert getattr(process, name) == pytest.approx(getattr(same, name)), name
    (loader,), (unstopped,) = process.loaders, same.loaders
    for name in ("waits", "steps", "wait_total", "seconds"):
        assert getattr(loader, name) == pytest.approx(getattr(unstopped, name)), name
    assert loader.epochs[0].seconds == pytest.approx(unstopped.epochs[0].seconds)


def test_one_that_is_stopped_at_its_end_was_stopped_until_then(story_of) -> None:
    story = story_of()
    story.iterator()
    story.epoch(10)
    story.note(-1, n="stopped", pid=100, t=story.ns(story.at))
    (process,) = story.features(until=story.at + HOUR).processes
    assert process.stopped == pytest.approx(HOUR / 1e3)
    assert sum(process.ledger.values()) == pytest.approx(process.wall)
    assert process.wall < 1


def test_a_command_without_a_training_is_stopped_too(empty) -> None:
    empty.note(-1, n="stopped", pid=7, t=empty.ns(100))
    empty.note(-1, n="continued", pid=7, t=empty.ns(400))
    assert empty.features(until=500).stopped == pytest.approx(0.3)
