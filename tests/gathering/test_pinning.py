"""What the thread that pins took, and that a batch is handed over to it, and not to next()."""

import pytest

from gputune.core.events import Kind

MS = 1_000_000


def workers(told, count: int = 2, **settings) -> None:
    told.loader(num_workers=count, prefetch_factor=1, pin_memory=True, **settings)
    told.iterator(workers=count)
    for number in range(count):
        told.process(number + 1, pid=11 + number, role="worker")
        told.record(Kind.MEMBER, told.at, told.at, a=1, b=11 + number, c=number)


def made(told, t0: float, t1: float, worker: int) -> None:
    told.record(Kind.FETCH, t0, t1, worker + 1, c=32)


def pinned(told, index: int, t0: float, t1: float, *, cpu: float = 1.0, unpacking: float = 0.5, code: int = 1) -> None:
    told.record(Kind.PIN, t0, t1, code=code, a=1, b=round(unpacking * MS), d=round(cpu * MS), c=index)


def taken(told, index: int, t0: float, t1: float) -> None:
    told.record(Kind.BATCH, t0, t1, a=1, b=index, c=32)


def loader(told):
    (found,) = told.features().processes[0].loaders
    return found


def test_what_each_batch_took_is_told_apart(untold) -> None:
    workers(untold)
    pinned(untold, 0, 110, 120, cpu=8, unpacking=0.7, code=101)
    pinned(untold, 1, 121, 122, code=0)
    taken(untold, 0, 105, 121)
    first, second = loader(untold).pins
    assert (first.wall, first.cpu, first.queued, first.unpacking) == pytest.approx((0.010, 0.008, 0.001, 0.0007))
    assert second.queued is None


def test_a_batch_is_handed_over_to_the_thread_as_it_comes(untold) -> None:
    workers(untold)
    made(untold, 101, 130, 0)
    made(untold, 101, 112, 1)
    pinned(untold, 1, 113, 123)  # 1 ms after it was made
    pinned(untold, 0, 132, 142)  # 2 ms after
    made(untold, 113, 125, 1)
    pinned(untold, 3, 145, 155)  # lay ready as the thread was free: 3 ms
    taken(untold, 0, 105, 142.4)
    taken(untold, 1, 150, 150.1)
    found = loader(untold)
    assert sorted(found.deliveries) == pytest.approx([0.001, 0.002, 0.003])
    assert found.ready == pytest.approx((0.003,))
    assert found.gets == pytest.approx((0.0004, 0.0001))


def test_a_lost_record_ends_the_joining_of_its_pass(untold) -> None:
    workers(untold)
    made(untold, 101, 130, 0)
    pinned(untold, 2, 132, 142)
    made(untold, 131, 150, 0)
    pinned(untold, 4, 152, 160)
    taken(untold, 2, 170, 171)
    assert loader(untold).deliveries == ()


def test_the_first_ones_got_memory_that_was_new(untold) -> None:
    workers(untold)
    for index in range(5):  # two on their way, and three of the warm-up
        pinned(untold, index, 110 + 100 * index, 150 + 100 * index)
    for index in range(5, 9):
        pinned(untold, index, 600 + 100 * index, 610 + 100 * index)
    taken(untold, 0, 105, 1500)
    found = loader(untold)
    assert [pin.wall for pin in found.pins] == pytest.approx([0.010] * 4)
    assert found.fresh == pytest.approx(5 * 0.030)


def test_its_cpu_time_in_a_step_is_none_of_the_steps_own(untold) -> None:
    """Half of its work lies in the waits of the training, half in its steps, which took 12 ms of CPU with it."""
    workers(untold)
    for index in range(12):
        at = 110 + 40 * index
        pinned(untold, index, at, at + 20, cpu=19.5)
        taken(untold, index, at - 10, at + 10.0)
        untold.record(Kind.STEP, at + 29, at + 29, a=1)
        untold.record(Kind.GUEST, at - 10, at + 30, a=0, b=MS, d=1, e=22 * MS)
    used = loader(untold).step_cpus
    assert used
    assert used[-1] == pytest.approx(0.012, abs=0.001)


def test_what_the_batches_consist_of(untold) -> None:
    workers(untold)
    untold.note(n="pinned", id=1, types={"torch.float32": 1000}, shape=[2, 3])
    taken(untold, 0, 105, 106)
    assert (loader(untold).types, loader(untold).shape) == ({"torch.float32": 1000}, (2, 3))


def test_a_thread_that_nobody_introduced_is_left_out(untold) -> None:
    workers(untold)
    untold.record(Kind.PIN, 110, 120, a=7, c=0)
    taken(untold, 0, 105, 106)
    assert loader(untold).pins == ()
