"""The beat calls probes when they are due, and none of them can stop another."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest

from gputune.core.sample import Metric, Reading, Sample, Target, Ticks, Unavailable
from gputune.sampler.ticker import ROOM, Ticker

VALUE = Metric("test.value", "1", "A number.")
TARGET = Target(os.getpid(), dict)


@pytest.fixture
def probe(monkeypatch) -> Callable[..., str]:
    """Return a maker of probes: a name and what `attach` yields."""

    def make(name: str, attach: Callable[[Target], Ticks], **facts: float) -> str:
        module = ModuleType(f"{ROOM}.{name}")
        module.attach = attach
        for key, value in facts.items():
            setattr(module, key, value)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return name

    return make


def counting(target: Target) -> Ticks:
    for n in range(1000):
        yield [Sample(VALUE, n, n)]


def failing(target: Target) -> Ticks:
    yield [Sample(VALUE, 0, 0)]
    raise ZeroDivisionError("a bug")


def impossible(target: Target) -> Ticks:
    raise Unavailable("no such instrument", hint="buy one")
    yield []


@pytest.fixture
def seen() -> list[Reading]:
    return []


def numbers(seen: list[Reading]) -> list[float]:
    return [reading.value for reading in seen if isinstance(reading, Sample) and reading.metric is VALUE]


def test_a_probe_that_fails_is_named_and_costs_itself_only(probe, seen) -> None:
    probes = [probe("bad", failing), probe("good", counting)]
    ticker = Ticker(TARGET, hz=10, sink=seen.extend, probes=probes)
    for _ in range(4):
        ticker.tick()
    assert numbers(seen) == [0, 0, 1, 2, 3]
    assert ticker.failed == {"bad": "ZeroDivisionError: a bug"}


def test_a_probe_that_cannot_be_imported_is_named(seen) -> None:
    ticker = Ticker(TARGET, hz=10, sink=seen.extend, probes=["not_there"])
    ticker.tick()
    assert "ModuleNotFoundError" in ticker.failed["not_there"]


def test_a_probe_that_cannot_work_here_says_why_and_what_would_help(probe, seen) -> None:
    ticker = Ticker(TARGET, hz=10, sink=seen.extend, probes=[probe("missing", impossible)])
    ticker.tick()
    ticker.tick()
    assert ticker.unavailable == {"missing": "no such instrument"}
    assert ticker.hints == {"missing": "buy one"}
    assert ticker.failed == {}
    assert ticker.cost["missing"].ticks == 1


def test_a_probe_with_a_period_is_called_that_often(probe, seen) -> None:
    ticker = Ticker(TARGET, hz=1000, sink=seen.extend, probes=[probe("slow", counting, PERIOD=3600.0)])
    for _ in range(5):
        ticker.tick()
    assert numbers(seen) == [0]


def test_the_last_tick_reads_everything(probe, seen) -> None:
    ticker = Ticker(TARGET, hz=1000, sink=seen.extend, probes=[probe("slow", counting, PERIOD=3600.0)])
    ticker.tick()
    ticker.tick(everything=True)
    assert numbers(seen) == [0, 1]


def test_a_probe_that_may_come_back_is_tried_again(probe, seen) -> None:
    states = iter([failing_at_once, failing_at_once, counting])

    def attach(target: Target) -> Ticks:
        return next(states)(target)

    name = probe("moody", attach, RETRY=0.001)
    ticker = Ticker(TARGET, hz=1000, sink=seen.extend, probes=[name])
    deadline = time.monotonic() + 60
    ticker.tick()
    assert "moody" in ticker.failed
    while not numbers(seen):
        ticker.tick()
        assert time.monotonic() < deadline
    assert ticker.failed == {}


def failing_at_once(target: Target) -> Ticks:
    raise OSError("gone")
    yield []


def test_closing_runs_what_probes_have_to_give_back(probe, seen) -> None:
    given_back = []

    def attach(target: Target) -> Ticks:
        try:
            while True:
                yield []
        finally:
            given_back.append(True)

    ticker = Ticker(TARGET, hz=10, sink=seen.extend, probes=[probe("holder", attach)])
    ticker.tick()
    ticker.close()
    assert given_back == [True]


def test_a_beat_that_took_too_long_is_skipped_not_caught_up(probe, seen) -> None:
    def slow(target: Target) -> Ticks:
        yield []
        time.sleep(0.1)
        yield []
        while True:
            yield []

    ticker = Ticker(TARGET, hz=100, sink=seen.extend, probes=[probe("slow", slow)])
    ends = iter([False, False, True])
    ticker.run(lambda: next(ends))
    assert ticker.missed >= 9


def test_a_wakeup_ends_the_wait_at_once(probe, seen) -> None:
    read, write = os.pipe()
    ended = threading.Event()

    def end() -> None:
        ended.set()
        os.write(write, b"x")

    timer = threading.Timer(0.05, end)
    timer.start()
    ticker = Ticker(TARGET, hz=0.01, sink=seen.extend, probes=[])
    ticker.run(ended.is_set, wakeup=read)  # without the wakeup the next beat is in 100 s, past this test's deadline
    timer.join()
    os.close(read)
    os.close(write)


def test_its_own_cost_is_measured_by_probe_and_in_all(probe, seen) -> None:
    def busy(target: Target) -> Iterator[list[Reading]]:
        while True:
            sum(range(100_000))
            yield []

    ticker = Ticker(TARGET, hz=10, sink=seen.extend, probes=[probe("busy", busy)])
    for _ in range(5):
        ticker.tick()
    assert ticker.cost["busy"].ticks == 5
    assert ticker.cost["busy"].cpu > 0
    assert ticker.own_cpu > 0


class Clock:
    """The ticker's time, set by the test."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.thread_time, self.process_time = time.thread_time, time.process_time

    def monotonic(self) -> float:
        return self.at


def test_what_has_the_same_period_comes_on_the_same_tick(probe, seen, monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr("gputune.sampler.ticker.time", clock)
    attempts = iter([failing_at_once, counting])

    def late(target: Target) -> Ticks:
        return next(attempts)(target)

    names = [probe("early", counting, PERIOD=1.0), probe("late", late, PERIOD=1.0, RETRY=0.35)]
    ticks: list[int] = []
    ticker = Ticker(TARGET, hz=10, sink=lambda readings: ticks.append(len(numbers(readings))), probes=names)
    for tick in range(40):
        clock.at = 1000 + tick / 10 + (tick % 3 - 1) / 100  # some come a little early, some a little late
        ticker.tick()
    assert ticks == [1, 1, 2, 2, 2]  # both at 0 s, the one that failed again at 0.4 s, then both each second


def test_an_old_run_is_read_more_rarely(probe, seen, monkeypatch) -> None:
    clock = Clock()
    monkeypatch.setattr("gputune.sampler.ticker.time", clock)
    ticker = Ticker(TARGET, hz=10, sink=seen.extend, probes=[probe("eager", counting, PERIOD=0.2, LATER=2.0)])
    for tick in range(100):
        clock.at = 1000 + tick / 10
        ticker.tick()
    assert len(numbers(seen)) == 50
    for tick in range(100, 200):
        clock.at = 1000 + tick / 10
        ticker.tick()
    assert len(numbers(seen)) == 50 + 5


def test_who_has_a_wakeup_is_not_asked_on_every_beat(probe, seen) -> None:
    read, write = os.pipe()
    asked = 0

    def end() -> bool:
        nonlocal asked
        asked += 1
        return len(numbers(seen)) > 20

    def telling(target: Target) -> Ticks:
        for n, readings in enumerate(counting(target)):
            if n == 20:
                os.write(write, b"x")
            yield readings

    ticker = Ticker(TARGET, hz=1000, sink=seen.extend, probes=[probe("telling", telling)])
    ticker.run(end, wakeup=read)
    assert asked < 20
    os.close(read)
    os.close(write)


def test_beats_on_which_nothing_is_due_are_slept_through(probe, seen, monkeypatch) -> None:
    read, write = os.pipe()
    ticks = []

    def rare(target: Target) -> Ticks:
        for n, readings in enumerate(counting(target)):
            if n == 3:
                os.write(write, b"x")
            yield readings

    ticker = Ticker(TARGET, hz=1000, sink=seen.extend, probes=[probe("rare", rare, PERIOD=0.05)])
    tick = ticker.tick
    monkeypatch.setattr(ticker, "tick", lambda: ticks.append(tick()))
    ticker.run(lambda: len(numbers(seen)) > 3, wakeup=read)
    assert len(ticks) <= 8  # of 150 beats
    os.close(read)
    os.close(write)
