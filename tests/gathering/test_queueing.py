"""Standing in launches behind a full queue: told by how far the device is behind, and never of a queue with room."""

import pytest

from gputune.core.events import Kind, Record
from gputune.gathering.queueing import LEAST_FULL, Queue

MS = 1_000_000
HOST, DEVICE, HOLDS = 4.0, 10.0, 65.0  # ms of a step on either side, and of the device's work that its queue holds


class Loop:
    """A training whose host queues a step in `HOST` ms unless the queue is full, as its guest tells of it."""

    def __init__(self, holds: float = HOLDS) -> None:
        self.queue = Queue()
        self.holds, self.at, self.behind = holds, 1_000.0, 0.0
        self.rounded = False

    def step(self, host: float = HOST, device: float = DEVICE, *, read: bool = False) -> None:
        """Make a step; `read`: and read a result at its end, which is a wait that has a record of its own."""
        began, before = self.at, self.behind
        stood = max(0.0, before + device - host - self.holds)
        waited = max(0.0, before + device - host) if read else 0.0
        self.at += host + stood + waited
        self.behind = max(0.0, before + device - (self.at - began))
        lag = 1 + int(self.behind * 1000)
        t0, t1 = int(began * MS), int(self.at * MS)
        gap = Record(Kind.GAP, 0, t1, t1 + 100, 0, int(device * MS), 0, 0, lag)
        step = Record(Kind.DEVICE, 0, t0, t1, 0, int(waited * MS), 0, int(before * MS), 1)
        for record in (step, gap) if self.rounded else (gap, step):
            self.queue.take(record)


def test_nothing_is_said_without_steps_that_had_room() -> None:
    loop = Loop(holds=DEVICE / 2)  # one step alone is more than it holds
    for _ in range(100):
        loop.step()
    assert loop.queue.stood is None


def test_nothing_is_said_of_a_few_steps() -> None:
    loop = Loop()
    for _ in range(LEAST_FULL):
        loop.step()
    assert loop.queue.stood is None
    assert Queue().stood is None


def test_a_host_that_is_slower_than_its_device_stands_in_no_launch() -> None:
    loop = Loop()
    for _ in range(100):
        loop.step(host=12)
    assert not loop.queue.stood


def test_a_device_that_comes_to_the_last_launches_a_moment_later_is_behind_no_full_queue() -> None:
    """An H100 that computed 1.3 ms of 13: its host was slow now and then, and the lag 0.15 ms for 0.05 then."""
    queue, at, before = Queue(), 1_000 * MS, 0
    for n in range(300):
        own, lag = (17 * MS, 150) if n // 10 % 2 else (12 * MS, 50)  # ns, µs
        queue.take(Record(Kind.GAP, 0, at + own, at + own, 0, MS, 0, 0, 1 + lag))
        queue.take(Record(Kind.DEVICE, 0, at, at + own, 0, 0, 0, before * 1000, 1))
        at, before = at + own, lag
    assert queue.stood is None


@pytest.mark.parametrize("rounded", [False, True])
def test_steps_behind_a_full_queue_are_held_against_those_that_had_room(rounded: bool) -> None:
    loop = Loop()
    loop.rounded = rounded
    for _ in range(2000):
        loop.step()
    assert loop.queue.stood == pytest.approx((DEVICE - HOST) * MS, rel=0.03)


def test_a_queue_that_is_emptied_before_it_is_full_holds_nobody_up() -> None:
    loop = Loop()
    for n in range(300):
        loop.step(read=n % 8 == 7)
    assert loop.queue.stood == 0.0


def test_reading_now_and_then_leaves_less_of_it() -> None:
    loop = Loop()
    for n in range(1050):
        loop.step(read=n % 50 == 49)
    filling = HOLDS / (DEVICE - HOST)  # steps of 50 until it is full again
    assert loop.queue.stood == pytest.approx((DEVICE - HOST) * MS * (1 - filling / 50), rel=0.05)


def test_a_model_that_is_saved_is_no_step_with_room() -> None:
    loop = Loop()
    for n in range(1050):
        loop.step(host=200 if n % 50 == 49 else HOST)
    assert loop.queue.stood == pytest.approx((DEVICE - HOST) * MS * (1 - HOLDS / 6 / 50), rel=0.1)


def test_a_warm_up_that_is_slow_makes_it_less_and_never_more() -> None:
    loop = Loop()
    for n in range(500):
        loop.step(host=300 if n == 0 else 1.5 * HOST if n < 6 else HOST)
    assert 0 < (loop.queue.stood or 0) <= (DEVICE - HOST) * MS


def test_steps_whose_device_is_not_known_and_halves_of_steps_are_left_out() -> None:
    queue = Queue()
    for n in range(1, 50):
        queue.take(Record(Kind.GAP, 0, n * 10 * MS, n * 10 * MS, 0, 0, 0, 0, 0))
        queue.take(Record(Kind.DEVICE, 0, (n - 1) * 10 * MS, n * 10 * MS, 0, 0, 0, 50 * MS, 1))
        queue.take(Record(Kind.GAP, 0, n * 10 * MS + 5 * MS, n * 10 * MS, 0, 0, 0, 0, 50_001))
    assert queue.stood is None


def trained(story, steps: int, optimizers: int) -> None:
    """A loop of 10 ms a step, 1 ms of that in next(); behind a full queue, which the first steps fill in 4 ms each."""
    story.iterator()
    for n in range(steps):
        took = 3 if n < 6 else 9
        story.batch(wait=1)
        t0 = story.at
        for number in range(1, optimizers + 1):
            story.at += took / optimizers
            story.record(Kind.STEP, story.at, story.at, a=number)
        behind = min(n, 6) * 10, min(n + 1, 6) * 10
        story.record(Kind.GAP, story.at, story.at + 1, b=10 * MS, c=1 + behind[1] * 1000)
        story.record(Kind.DEVICE, t0, story.at, e=behind[0] * MS, c=1)


@pytest.mark.parametrize("optimizers", [1, 2])
def test_it_is_a_word_of_the_ledger_and_no_part_of_the_step(story, optimizers: int) -> None:
    trained(story, 400, optimizers)
    (process,) = story.features().processes
    assert process.ledger["launch.wait"] == pytest.approx(0.006 * 394, rel=0.03)
    assert process.ledger["step"] == pytest.approx(0.003 * 400, rel=0.05)
    assert sum(process.ledger.values()) == pytest.approx(process.wall)
    assert process.in_loop["launch.wait"] == process.ledger["launch.wait"]
