"""The replay against closed forms, against two simulations written another way, and against a real DataLoader."""

import time
from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from gputune.model.replay import LoopSeries, Work, spread

STEP = 0.010


def job(*, fetches, steps=(STEP,), cpus: float = 1000.0, others: float = 0.0, floor: float = 0.0) -> LoopSeries:
    """Return a job; bare numbers are blocked time, for which no CPU is needed."""
    return LoopSeries(
        fetches=[f if isinstance(f, Work) else Work(0.0, f) for f in fetches],
        steps=[s if isinstance(s, Work) else Work(0.0, s) for s in steps],
        cpus=cpus,
        others=others,
        delivery=0.0,
        floor=floor,
    )


@pytest.mark.parametrize("service", [0.005, 0.030, 0.100])
@pytest.mark.parametrize("workers", [1, 2, 3, 4, 8, 16, 64])
@pytest.mark.parametrize("prefetch", [1, 2, 4])
def test_constant_times_give_the_slower_of_step_and_shared_service(service, workers, prefetch) -> None:
    expected = max(STEP, service / workers)
    assert job(fetches=[service]).seconds(workers, prefetch) == pytest.approx(expected, rel=0.05)


def test_without_workers_a_batch_is_made_and_then_used() -> None:
    assert job(fetches=[0.030]).seconds(0, 2) == pytest.approx(0.040)


@pytest.mark.parametrize(("cpus", "workers", "expected"), [(1, 4, 0.040), (2, 4, 0.020), (2, 1, 0.040), (8, 4, 0.010)])
def test_workers_that_compute_share_the_cpus(cpus, workers, expected) -> None:
    busy = job(fetches=[Work(0.040, 0.0)], steps=[Work(0.0, 0.001)], cpus=cpus)
    assert busy.seconds(workers, 2) == pytest.approx(expected, rel=0.05)


def test_the_training_competes_for_the_cpus_as_well() -> None:
    """Work is conserved: 20 ms of fetch and 10 ms of step on one CPU are 30 ms a batch, whoever is first."""
    one = job(fetches=[Work(0.020, 0.0)], steps=[Work(0.010, 0.0)], cpus=1)
    for workers in (0, 1, 4):
        assert one.seconds(workers, 2) == pytest.approx(0.030, rel=0.05)


def test_a_step_that_fills_many_cpus_leaves_the_workers_few() -> None:
    wide = job(fetches=[Work(0.020, 0.0)], steps=[Work(0.010, 0.0, width=4.0, tied=False)], cpus=4)
    assert wide.seconds(4, 2) == pytest.approx((0.010 * 4 + 0.020) / 4, rel=0.1)


def test_threads_of_a_step_that_wait_for_each_other_lose_more_than_their_share() -> None:
    """Beside a worker each of two threads has one of two CPUs for two thirds of the time, both for 8 of 27 parts."""
    inline, beside = 0.040, 0.010 * 27 / 8 + (0.030 - 0.010 * 27 / 8 * 2 / 3)
    tied = job(fetches=[Work(0.030, 0.0)], steps=[Work(0.010, 0.0, width=2.0)], cpus=2)
    assert tied.seconds(0, 1) == pytest.approx(inline, rel=0.01)
    assert tied.seconds(1, 2) == pytest.approx(beside, rel=0.03)
    assert tied.seconds(4, 2) > 0.95 * inline
    loose = job(fetches=[Work(0.030, 0.0)], steps=[Work(0.010, 0.0, width=2.0, tied=False)], cpus=2)
    assert loose.seconds(4, 2) == pytest.approx((0.030 + 2 * 0.010) / 2, rel=0.1)


def test_threads_that_wait_for_each_other_lose_nothing_where_there_are_cpus_for_all() -> None:
    tied = job(fetches=[Work(0.030, 0.0)], steps=[Work(0.010, 0.0, width=2.0)], cpus=8)
    assert tied.seconds(4, 2) == pytest.approx(0.010, rel=0.15)


def test_strangers_take_their_share_of_the_cpus() -> None:
    alone = job(fetches=[Work(0.020, 0.0)], steps=[Work(0.0, 0.001)], cpus=1)
    crowded = job(fetches=[Work(0.020, 0.0)], steps=[Work(0.0, 0.001)], cpus=1, others=1.0)
    assert crowded.seconds(1, 2) == pytest.approx(2 * alone.seconds(1, 2), rel=0.05)


def test_the_device_sets_a_floor_that_no_setting_goes_below() -> None:
    held = job(fetches=[0.001], floor=0.050)
    assert [held.seconds(n, 2) for n in (0, 1, 8)] == [0.050] * 3
    assert held.epoch(4, 2, 100) >= 100 * 0.050


def test_a_longer_queue_hides_bursts() -> None:
    bursts = job(fetches=[0.005] * 16 + [0.060] * 4)
    assert bursts.seconds(2, 8) < 0.95 * bursts.seconds(2, 1)


def test_an_epoch_pays_for_its_first_batch() -> None:
    fresh = job(fetches=[0.100], steps=[0.010])
    assert fresh.epoch(4, 2, 1) == pytest.approx(0.110)
    assert fresh.epoch(4, 2, 0 + 4) == pytest.approx(0.140, rel=0.01)


def test_a_long_epoch_is_its_beginning_and_the_steady_state() -> None:
    long = job(fetches=[0.040], steps=[0.010])
    assert long.epoch(2, 2, 10_000) == pytest.approx(10_000 * 0.020, rel=0.02)


def recurrence(fetches: list[float], steps: list[float], workers: int, prefetch: int) -> list[float]:
    """Return when each step ends, by the rules of an ordered DataLoader with work that needs no CPU."""
    done: list[float] = []
    received: list[float] = []
    ends: list[float] = []
    for k, (fetch, step) in enumerate(zip(fetches, steps, strict=True)):
        handed = received[k - workers * prefetch] if k >= workers * prefetch else 0.0
        free = done[k - workers] if k >= workers else 0.0
        done.append(max(handed, free) + fetch)
        received.append(max(done[k], ends[-1] if ends else 0.0))
        ends.append(received[k] + step)
    return ends


times = some.lists(some.integers(1, 9), min_size=1, max_size=12)


@settings(derandomize=True, deadline=None)
@given(times, times, some.integers(1, 5), some.integers(1, 4))
def test_hands_out_and_delivers_in_order_as_the_recurrence_says(fetches, steps, workers, prefetch) -> None:
    count = 30
    made = [fetches[k % len(fetches)] for k in range(count)]
    used = [steps[k % len(steps)] for k in range(count)]
    expected = recurrence(made, used, workers, prefetch)
    assert job(fetches=fetches, steps=steps).epoch(workers, prefetch, count) == pytest.approx(expected[-1])


class Ticked:
    """The same loop by moving everybody on by one small tick after the other, after torch's `_try_put_index`.

    `fetches` and `steps` are (blocked, cpu) in ticks, as many of each as there are batches.
    """

    def __init__(self, fetches, steps, shape: tuple[int, int], cpus: float, *, in_order: bool) -> None:
        workers, self.prefetch = shape
        self.fetches, self.steps, self.cpus, self.in_order = fetches, deque(steps), cpus, in_order
        self.queues = [deque() for _ in range(workers)]
        self.held = [0] * workers
        self.maker: dict[int, int] = {}
        self.made: list[int] = []
        self.now: list[list[float] | None] = [None] * workers  # batch, blocked left, cpu left
        self.training: list[float] | None = None
        self.sent = self.received = self.ended = self.turn = self.ticks = 0
        for _ in range(workers * self.prefetch):
            self.put()

    def put(self) -> None:
        if self.sent == len(self.fetches):
            return
        workers = len(self.queues)
        while not self.in_order and self.held[self.turn % workers] >= self.prefetch:
            self.turn += 1
        who = self.turn % workers
        self.queues[who].append(self.sent)
        self.maker[self.sent] = who
        self.held[who] += 1
        self.turn += 1
        self.sent += 1

    def receive(self) -> None:
        found = self.received if self.in_order else next(iter(self.made), -1)
        if self.training is None and found in self.made:
            self.made.remove(found)
            self.held[self.maker[found]] -= 1
            self.training = list(self.steps.popleft())
            self.received += 1
            self.put()

    def tick(self) -> None:
        self.receive()
        for who, queue in enumerate(self.queues):
            if self.now[who] is None and queue:
                batch = queue.popleft()
                self.now[who] = [batch, *self.fetches[batch]]
        busy = [work for work in self.now if work is not None and work[1] <= 0]
        stepping = self.training is not None and self.training[1] > 0
        share = min(1.0, self.cpus / max(1, len(busy) + stepping))
        for who, work in enumerate(self.now):
            if work is not None:
                work[2 if work[1] <= 0 else 1] -= share if work[1] <= 0 else 1
                if work[1] <= 0 and work[2] <= 1e-9:
                    self.made.append(int(work[0]))
                    self.now[who] = None
        if self.training is not None:
            self.training[1 if stepping else 0] -= share if stepping else 1
            if self.training[1] <= 1e-9 and self.training[0] <= 0:
                self.training = None
                self.ended += 1
        self.ticks += 1


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    some.lists(some.tuples(some.integers(10, 80), some.integers(10, 80)), min_size=1, max_size=5),
    some.lists(some.tuples(some.integers(10, 60), some.integers(10, 60)), min_size=1, max_size=5),
    some.tuples(some.integers(1, 4), some.integers(1, 3)),
    some.sampled_from([1.0, 2.0, 3.0]),
    some.booleans(),
)
def test_agrees_with_a_simulation_in_small_ticks(fetches, steps, shape, cpus, in_order) -> None:
    count = 20
    simulation = Ticked((fetches * count)[:count], (steps * count)[:count], shape, cpus, in_order=in_order)
    while simulation.ended < count:
        simulation.tick()
    replayed = job(fetches=[Work(c, b) for b, c in fetches], steps=[Work(c, b) for b, c in steps], cpus=cpus)
    assert replayed.epoch(*shape, count, in_order=in_order) == pytest.approx(simulation.ticks, rel=0.06)


def test_without_order_one_slow_worker_holds_nobody_up() -> None:
    """One batch in eight takes as long as sixteen others."""
    slow = job(fetches=[0.160] + [0.010] * 7, steps=[0.001])
    assert slow.seconds(4, 2, in_order=False) < 0.8 * slow.seconds(4, 2)


def test_rare_slow_batches_are_replayed_as_often_as_they_came() -> None:
    """Each eightieth batch takes 3 s: fewer than all 400 would have one too many or too few of them."""
    times = [3.0 if number % 80 == 30 else 0.020 for number in range(400)]
    held = job(fetches=times, steps=[0.015])
    assert held.epoch(4, 2, 400) == pytest.approx(held.epoch(4, 2, 800) / 2, rel=0.05)
    assert held.epoch(4, 2, 400) == pytest.approx(5 * 3.0 + 395 * 0.015, rel=0.05)


def test_short_passes_are_like_all_that_was_measured_and_not_like_any_few() -> None:
    """Passes of 12 batches, of which each third one is slow throughout: which of the passes, no other may decide."""
    times = [0.200 if number // 12 % 3 == 1 else 0.020 for number in range(360)]
    passes = job(fetches=times, steps=[0.001])
    assert passes.epoch(1, 2, 12) == pytest.approx(12 * (0.200 + 2 * 0.020) / 3, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "prefetch"), [(1, 2), (3, 2)])
def test_a_real_dataloader_of_sleeping_items_takes_as_long_as_its_items_and_steps_say(workers, prefetch) -> None:
    """What items and steps really took is replayed: a busy machine makes both longer, and the prediction with them."""
    from torch.utils.data import DataLoader

    tried = []
    for _ in range(5):  # a machine that stands still between an item and its batch is asked again
        dataset = _Sleeps(30, 0.060)
        loader = DataLoader(dataset, batch_size=None, num_workers=workers, prefetch_factor=prefetch)
        measured, items, steps = _timed(loader, 0.015)
        predicted = job(fetches=items, steps=steps).seconds(workers, prefetch)
        tried.append(f"predicted {predicted * 1e3:.1f} ms a batch, measured {measured * 1e3:.1f}")
        if predicted == pytest.approx(measured, rel=0.15):
            return
    pytest.fail("; ".join(tried))


def _timed(loader, step: float) -> tuple[float, list[float], list[float]]:
    """Return the s a batch after the first five, and what each item and each step took."""
    ends, items, steps = [], [], []
    for item in loader:
        began = time.monotonic()
        time.sleep(step)
        ends.append(time.monotonic())
        steps.append(ends[-1] - began)
        items.append(float(item))
    return (ends[-1] - ends[4]) / (len(ends) - 5), items[5:], steps[5:]


class _Sleeps:
    """Items that take about a known time and no CPU, and say how long they really took."""

    def __init__(self, count: int, seconds: float) -> None:
        self.count, self.seconds = count, seconds

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> float:
        began = time.monotonic()
        time.sleep(self.seconds)
        return time.monotonic() - began


@pytest.mark.parametrize("count", [1, 3, 12, 100, 240])
def test_a_long_series_is_replayed_from_all_over_it(count) -> None:
    series = [Work(float(i), 0.0) for i in range(2000)]
    found = [work.cpu for work in spread(series, count)]
    assert len(found) == count
    assert found == sorted(set(found))
    if count > 3:
        assert found[0] < 100
        assert found[-1] > 1900
        assert sum(found) / count == pytest.approx(1000, rel=0.1)


def test_a_short_series_is_cycled_through() -> None:
    series = [Work(1.0, 0.0), Work(2.0, 0.0)]
    assert [work.cpu for work in spread(series, 5)] == [1.0, 2.0, 1.0, 2.0, 1.0]


@pytest.mark.parametrize("workers", [1, 2, 4, 8])
def test_a_disk_at_its_limit_gives_no_more_to_more_readers(workers: int) -> None:
    job = LoopSeries(fetches=[Work(0.001, 0.0, disk=0.020)], steps=[Work(0.005, 0.0)], cpus=8, delivery=0.0)
    alone = 0.021 if workers == 1 else 0.020
    assert job.seconds(workers, 2) == pytest.approx(alone, rel=0.03)


def test_without_workers_the_disk_is_waited_for_as_well() -> None:
    job = LoopSeries(fetches=[Work(0.001, 0.0, disk=0.020)], steps=[Work(0.005, 0.0)], cpus=8)
    assert job.seconds(0, 1) == pytest.approx(0.026)


@pytest.mark.parametrize(("workers", "expected"), [(0, 0.055), (1, 0.030), (2, 0.030), (8, 0.030)])
def test_a_batch_sampler_holds_up_the_training_whatever_the_workers(workers: int, expected: float) -> None:
    slow = LoopSeries(
        fetches=[Work(0.0, 0.025)], steps=[Work(0.010, 0.0)], picks=[Work(0.020, 0.0)], cpus=8, delivery=0.0
    )
    assert slow.seconds(workers, 2) == pytest.approx(expected, rel=0.02)


def test_one_that_sorts_a_pool_at_once_empties_no_queue() -> None:
    """200 ms for each 20 batches: 10 ms a batch, in which the workers fill theirs."""
    pool = [Work(0.200, 0.0), *[Work(0.0, 0.0)] * 19]
    job = LoopSeries(fetches=[Work(0.0, 0.010)], steps=[Work(0.010, 0.0)] * 20, picks=pool, cpus=8, delivery=0.0)
    assert job.seconds(2, 2) == pytest.approx(0.020, rel=0.03)


@pytest.mark.parametrize(("late", "expected"), [(0.0, 0.040), (1.0, 0.041), (0.001, 0.040)])
def test_a_worker_that_computes_its_next_batch_hands_the_last_one_over_late(late: float, expected: float) -> None:
    """Where it does so only when the next one is made, it gets an index, and work, when that is handed over."""
    busy = LoopSeries(fetches=[Work(0.040, 0.0)], steps=[Work(0.010, 0.0)], cpus=8, delivery=0.001, late=late)
    assert busy.seconds(1, 2) == pytest.approx(expected, rel=0.005)
    waiting = replace(busy, fetches=[Work(0.0, 0.040)])  # while it waits for something else, it has time for others
    assert waiting.seconds(1, 2) == pytest.approx(0.040, rel=0.005)


def test_a_long_queue_does_not_hide_a_burst_in_which_nothing_is_handed_over_in_time() -> None:
    """Of 24 batches the first takes 1 s: meanwhile others wait in the queue, and each comes 100 ms late."""
    bursts = [Work(1.0, 0.0), *[Work(0.0, 0.0005)] * 23]
    held = LoopSeries(fetches=bursts, steps=[Work(0.040, 0.0)], cpus=8, delivery=0.001, late=0.1)
    quick = replace(held, late=0.0)
    assert quick.seconds(1, 16) < 1.15 * (1.0 + 0.36) / 24
    assert held.seconds(1, 16) == pytest.approx((0.94 + 17 * 0.041) / 24, rel=0.1)


def test_with_a_second_worker_that_rests_nothing_is_late() -> None:
    """Each works for 20 of 50 ms: when its batch is wanted, it is done, and has nothing else to do."""
    two = LoopSeries(fetches=[Work(0.020, 0.0)], steps=[Work(0.024, 0.0)], cpus=8, delivery=0.001, late=1.0)
    assert two.seconds(2, 1) == pytest.approx(0.025, rel=0.01)


def pinned(*, pins, fetches=(0.010,), steps=(STEP,), **differs) -> LoopSeries:
    """Return a job with a thread that pins; bare numbers are blocked time."""
    works = [p if isinstance(p, Work) else Work(0.0, p) for p in pins]
    late, taking = differs.pop("late", 0.0), differs.pop("taking", 0.0)
    return replace(job(fetches=fetches, steps=steps, **differs), pins=works, late=late, taking=taking)


@pytest.mark.parametrize("workers", [2, 4, 16])
@pytest.mark.parametrize(("pin", "expected"), [(0.030, 0.030), (0.009, STEP)])
def test_no_more_batches_come_than_the_thread_pins(pin, expected, workers) -> None:
    assert pinned(pins=[pin]).seconds(workers, 2) == pytest.approx(expected, rel=0.02)


def test_a_thread_that_pins_needs_a_cpu_beside_the_step() -> None:
    both = {"pins": [Work(0.020, 0.0)], "steps": [Work(0.020, 0.0)], "fetches": [0.001]}
    assert pinned(**both, cpus=1).seconds(4, 2) == pytest.approx(0.040, rel=0.02)
    assert pinned(**both, cpus=2).seconds(4, 2) == pytest.approx(0.020, rel=0.02)


def test_batches_are_pinned_as_they_are_made_and_not_in_their_order() -> None:
    """The second one is pinned while the first is still made."""
    two = pinned(pins=[0.030], fetches=[0.100, 0.010])
    assert two.epoch(2, 1, 2) == pytest.approx(0.100 + 0.030 + 2 * STEP, rel=0.01)


def test_taking_a_batch_is_a_part_of_it() -> None:
    assert pinned(pins=[0.020], taking=0.010).seconds(4, 2) == pytest.approx(0.030, rel=0.02)


def test_a_maker_at_work_holds_up_the_thread() -> None:
    """The one step of a pass of one batch begins 1 ms after it was made; that of one with a second batch 5 ms later."""
    busy = pinned(pins=[0.001], fetches=[Work(0.020, 0.0)], steps=[0.050], late=0.005)
    assert busy.epoch(1, 2, 1) == pytest.approx(0.071)
    assert busy.epoch(1, 2, 2) == pytest.approx(0.076 + 0.050)


def test_without_workers_the_training_pins_by_itself() -> None:
    assert pinned(pins=[0.020]).seconds(0, 2) == pytest.approx(0.010 + 0.020 + STEP)


def test_many_more_workers_than_cpus_can_be_replayed() -> None:
    crowd = job(fetches=[Work(0.030, 0.0)], steps=[Work(0.010, 0.0, width=2.0)], cpus=2)
    assert crowd.seconds(300, 2) > 0.015
