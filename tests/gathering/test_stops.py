"""A training that somebody stops for an hour is judged as if it had never been stopped."""

import math
import random
from collections.abc import Callable, Iterator

import pytest

from gputune.core.events import Event, Kind, Record, SpanCode
from gputune.core.sample import Guest, Note, Reading
from gputune.features import Features
from gputune.gathering import Gatherer
from tests.gathering.conftest import LOADER, MS, STARTED

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


@pytest.mark.parametrize("seed", range(40))
def test_whenever_a_stop_is_noticed_no_second_is_counted_twice(seed: int) -> None:
    """Stops at any moment, known half a look late or early; and the run is cut off after each of its readings."""
    chance = random.Random(seed)
    look = chance.choice([200.0, 1000.0])  # ms between looks, as `probes/stops.py` looks
    readings = list(_told(chance, look))
    gatherer = Gatherer(("python", "train.py"), STARTED)
    for due, reading in readings:
        gatherer.take([reading])
        if chance.random() < 0.2:
            _check(gatherer.features(_ns(due)))
    _check(gatherer.features(_ns(due)))


def _check(run: Features) -> None:
    for process in run.processes:
        assert min(process.ledger.values()) >= 0
        assert sum(process.ledger.values()) == pytest.approx(process.wall)
        assert sum(process.in_loop.values()) <= process.loop + 1e-6
        for loader in process.loaders:
            assert min([0.0, *loader.steps, *loader.waits]) >= 0


def _told(chance: random.Random, look: float) -> Iterator[tuple[float, Reading]]:
    """Yield what is read of a training, with when (ms): records a tick after they were written, notes at a look."""
    stops, at = list[tuple[float, float]](), 100.0
    for _ in range(chance.randrange(1, 4)):
        began = at + chance.uniform(300, 3000)
        at = began + chance.choice([50.0, 2500.0, 60_000.0])
        stops.append((began, at))
    found: list[tuple[float, int, Reading]] = [(0.0, 0, Guest(0, 100, 1, _ns(0), 0, "main", "ring"))]
    found.append((0.0, 1, Note(0, LOADER)))
    for number, record in enumerate(_records(chance, stops)):
        tick = math.ceil((record.t1 - STARTED) / MS / 100) * 100
        found.append((tick, 2 + number, Event(0, record)))
    for began, ended in stops:
        if math.ceil(began / look) * look > ended:
            continue  # nobody has seen it
        for what, when in (("stopped", began), ("continued", ended)):
            seen = math.ceil(when / look) * look
            found.append((seen, -1, Note(-1, {"n": what, "pid": 100, "t": _ns(seen - look / 2)})))
    yield from ((due, reading) for due, _, reading in sorted(found, key=lambda each: each[:2]))


def _records(chance: random.Random, stops: list[tuple[float, float]]) -> Iterator[Record]:
    """Yield what a loop writes that is stopped at these times (ms), until 3 s after the last of them."""

    def wall(at: float) -> float:
        """Return when it has come so far."""
        for began, ended in stops:
            at += ended - began if at > began else 0
        return at

    def record(kind: int, t0: float, t1: float, code: int = 0, **fields: int) -> Record:
        return Record(kind, code, _ns(wall(t0)), _ns(wall(t1)), **(dict.fromkeys("abdec", 0) | fields))

    at = 105.0
    yield record(Kind.ITERATOR, 100, at, a=1, b=1, e=1)
    while wall(at) < stops[-1][1] + 3000:
        wait, step = chance.uniform(0, 40), chance.uniform(6, 90)
        yield record(Kind.BATCH, at, at + wait, a=1, c=32)
        at += wait
        yield record(Kind.SPAN, at, at + 5, SpanCode.LOGGING)
        yield record(Kind.STEP, at + step - 1, at + step, a=1)
        at += step


def _ns(ms: float) -> int:
    return STARTED + round(ms * MS)


def test_one_that_goes_on_after_its_launcher_has_a_ledger_of_its_own_time(story) -> None:
    story.iterator()
    story.epoch(10)
    (process,) = story.features(until=story.at - 50).processes
    assert sum(process.ledger.values()) == pytest.approx(process.wall)
