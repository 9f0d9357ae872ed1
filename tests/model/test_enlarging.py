"""What a larger batch buys: a device works behind its host, until it takes longer than that."""

from dataclasses import replace

import pytest

from gputune.features import Copy, DeviceStep, Fetch, Loader, Pin, Process
from gputune.model.enlarging import Turn, turn

HOST, DEVICE = 0.008, 0.001  # s a round


def pretend(*, step: float, cpu: float | None = None, queued: float = 0.0, logging: float = 0.0, sync: float = 0.0):
    """Return a loop of 100 rounds and its loader."""
    loader = Loader(
        where="a.py:1", num_workers=1, prefetch_factor=2, pin_memory=False, persistent_workers=False, batch_size=8,
        batches=100, waits=(0.0,) * 100, steps=(step,) * 100, pauses={"logging": (logging,) * 100},
        step_cpus=() if cpu is None else (cpu,) * 10, step_queued=queued,
    )  # fmt: skip
    process = Process(
        pid=1, rank=None, wall=100 * step, ledger={}, inclusive={}, in_loop={"sync": 100 * sync}, loop=100 * step,
        batches=100, samples=800, optimizer_steps=100, loaders=(loader,),
    )  # fmt: skip
    return process, loader


@pytest.mark.parametrize(("busy", "times", "gain"), [(1.0, 16, 1.0), (0.5, 2, 4 / 3), (0.0, 4, 4.0)])
def test_where_the_host_waits_for_all_of_it_only_the_idle_share_shrinks(busy, times, gain) -> None:
    assert Turn(total=1.0, device=busy, awaited=busy).gain(times) == pytest.approx(gain)


@pytest.mark.parametrize(("times", "after"), [(2, 0.008), (8, 0.008), (16, 0.016)])
def test_a_device_that_nobody_waits_for_costs_nothing_until_it_is_the_slower_one(times, after) -> None:
    assert Turn(total=0.008, device=0.001, awaited=0.0).gain(times) == pytest.approx(times * 0.008 / after)


def test_the_optimizers_work_on_the_device_is_paid_once_a_round() -> None:
    """Of 4 ms three are the optimizer's: sixteen times the batch takes the device 19 ms and not 64."""
    found = Turn(total=0.010, device=0.004, awaited=0.0, update=0.003)
    assert found.gain(16) == pytest.approx(16 * 0.010 / 0.019)
    assert found.most == pytest.approx(10)
    awaited = Turn(total=0.010, device=0.004, awaited=0.004, update=0.003)
    assert awaited.gain(4) == pytest.approx(4 * 0.010 / (0.006 + 0.007))


def test_what_grows_on_the_host_grows_in_any_case() -> None:
    assert Turn(total=0.010, device=0.001, grows=0.005, awaited=0.0).gain(1e6) == pytest.approx(0.010 / 0.006)


def test_the_awaited_part_is_the_time_in_which_the_process_stood_still() -> None:
    process, loader = pretend(step=HOST + 0.0007, cpu=HOST)
    assert turn(process, loader, DEVICE / (HOST + 0.0007), 0.0).awaited == pytest.approx(0.0007)


def test_workers_make_no_more_samples_of_larger_batches() -> None:
    """An H100's steps of 4.5 ms: two workers made a batch in 0.4 ms, and one of sixteen times as many in 6.8."""
    found = Turn(total=0.0045, device=0.0003, awaited=0.0, filled=0.07, making=0.000425)
    assert found.gain(16) == pytest.approx(0.0045 / 0.000425)
    assert found.most == pytest.approx(0.0045 / 0.000425)
    process, loader = pretend(step=HOST)
    fetched = replace(
        loader, num_workers=2, fetches=(Fetch(wall=0.003, cpu=0.003, queued=0.0, collate=0.0, samples=8),) * 10
    )
    assert turn(process, fetched, 0.1, 0.0).making == pytest.approx(0.0015)
    assert turn(process, replace(fetched, num_workers=0), 0.1, 0.0).making == 0.0


@pytest.mark.parametrize("why", [{"queued": 0.002}, {"logging": 0.002}, {"cpu": 0.010}])
def test_time_without_a_cpu_and_pauses_are_no_waiting_for_the_device(why) -> None:
    process, loader = pretend(**{"step": HOST + 0.002, "cpu": HOST, **why})
    assert turn(process, loader, 0.1, 0.0).awaited == pytest.approx(0.0)


def test_a_wait_that_keeps_the_cpu_busy_is_told_by_its_spans() -> None:
    process, loader = pretend(step=HOST + 0.0007, cpu=HOST + 0.0007, sync=0.0007)
    assert turn(process, loader, 0.2, 0.0).awaited == pytest.approx(0.0007)


def test_nobody_waits_longer_for_the_device_than_it_works() -> None:
    process, loader = pretend(step=0.020, cpu=0.001)
    assert turn(process, loader, 0.1, 0.0).awaited == pytest.approx(0.002)


def test_where_nothing_tells_the_wait_the_bounds_hold_both() -> None:
    process, loader = pretend(step=0.010)
    unknown = turn(process, loader, 0.1, 0.0)
    low, likely, high = unknown.bounds(16)
    for awaited in (0.0, unknown.device):
        assert low <= replace(unknown, awaited=awaited).gain(16) <= high
    assert low < likely < high


def test_what_is_awaited_of_the_optimizers_work_is_the_same_for_any_batch() -> None:
    """A loss that is read behind the optimizer: of 11.8 ms are 1.5 for kernels of its, and nothing else."""
    found = Turn(total=0.0118, device=0.00317, awaited=0.0015, filled=0.28, update=0.00166, ending=0.0015)
    assert found.gain(16, filled=0.28) == pytest.approx(16)
    assert replace(found, ending=0.0).gain(16, filled=0.28) == pytest.approx(16 * 11.8 / (10.3 + 1.5 * 4.48))


def test_what_the_optimizer_leaves_of_a_full_device_is_what_the_others_fill() -> None:
    """Half of the device's ms are the optimizer's: if that fills all of it, the rest fills a fifth."""
    found = Turn(total=0.020, device=0.002, awaited=0.0, filled=0.6, update=0.001)
    assert found.gain(100) == pytest.approx(100 * 20 / (40 + 1))
    low, likely, high = found.bounds(100)
    assert low < 100 * 20 / (60 + 1) < likely < 100 * 20 / (20 + 1) < high
    empty = replace(found, filled=0.4)  # not even while the optimizer's run
    assert empty.gain(100) == pytest.approx(100 * 20 / (40 + 1))


def test_copies_grow_on_the_device_and_where_the_host_stands_in_them_there_too() -> None:
    """17 % of a step that is else the host's: 16 times as many samples take 3.5 times as long."""
    found = Turn(total=0.010, device=0.0, awaited=0.0, copying=0.0017, standing=0.0017)
    assert found.gain(16) == pytest.approx(16 / (0.83 + 16 * 0.17))
    assert replace(found, standing=0.0).gain(16) == pytest.approx(16 / (16 * 0.17))
    assert replace(found, standing=0.0).gain(4) == pytest.approx(4)


@pytest.mark.parametrize(("pinned", "non_blocking", "stood"), [(1.0, 1.0, 0.0), (1.0, 0.0, 0.2), (0.0, 1.0, 0.2)])
def test_the_host_stands_in_copies_that_it_waits_for(pinned, non_blocking, stood) -> None:
    process, loader = pretend(step=0.010)
    timed = DeviceStep(
        timed=50, whole=0.010, starved=0.0, copying=0.002, compute=0.001, read_waits=0.0, copy_waits=0.0, lag=0.0
    )
    copy = Copy(where="a.py:2", what="to", count=100, seconds=0.5, size=1, pinned=pinned, non_blocking=non_blocking)
    found = turn(replace(process, device_step=timed, copies=(copy,)), loader, 0.1, 0.0)
    assert (found.copying, found.standing) == pytest.approx((0.002, 0.01 * stood))
    unclocked = replace(process, copies=(replace(copy, size=10_000_000, fastest=1e8),))
    assert turn(unclocked, loader, 0.1, 0.0).copying == pytest.approx(0.001)


def test_the_thread_that_pins_makes_no_more_of_larger_batches_either() -> None:
    process, loader = pretend(step=HOST)
    pins = replace(loader, pins=(Pin(wall=0.004, cpu=0.003, queued=0.001),) * 10)
    assert turn(process, pins, 0.1, 0.0).making == pytest.approx(0.003)
