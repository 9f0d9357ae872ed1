"""A device's loop, parted: compute, copies, standing for ranks, gaps of the host, no batch; it adds to one."""

from dataclasses import replace

import pytest

from gputune.features import DeviceStep, Process, SyncRound
from gputune.verdict.device_ledger import device_ledger


def process(compute: float | None, *, meetings: tuple[SyncRound, ...] = (), **more: float) -> Process:
    """Return a process whose device's step is 10 ms: 1 starved, 2 of copies, and so much of kernels."""
    step = DeviceStep(
        **{
            "timed": 100,
            "whole": 0.010,
            "starved": 0.001,
            "copying": 0.002,
            "compute": compute,
            "read_waits": 0.0,
            "copy_waits": 0.0,
            **more,
        }
    )
    return Process(
        pid=1,
        rank=None,
        wall=10.0,
        ledger={},
        inclusive={},
        loop=10.0,
        batches=1000,
        samples=1000,
        optimizer_steps=1000,
        device_step=step,
        meetings=meetings,
        rounds=1000 if meetings else 0,
    )


def test_nothing_is_said_of_a_device_that_was_not_timed() -> None:
    assert device_ledger(process(0.004, whole=0.0)) == {}


def test_gaps_that_nothing_explains_are_the_hosts() -> None:
    told = device_ledger(process(0.004))
    assert told == pytest.approx({"compute": 0.4, "copies": 0.2, "host-bound": 0.3, "starved": 0.1})
    assert sum(told.values()) == pytest.approx(1)


def test_kernels_and_gaps_are_unknown_together_where_no_step_was_worked_off_in_one_go() -> None:
    assert device_ledger(process(None)) == pytest.approx({"copies": 0.2, "unknown": 0.7, "starved": 0.1})


def test_standing_for_other_ranks_is_no_compute() -> None:
    stood = tuple(SyncRound(number=n, own=0.008, apart=0.002, on_device=True) for n in range(30))
    job = process(0.006, meetings=stood)
    for told in (device_ledger(job), device_ledger(replace(job, batches=0))):  # with a DataLoader, and without
        assert told["communication"] == pytest.approx(0.2)
        assert told["compute"] == pytest.approx(0.4)


def test_what_a_device_stood_for_other_ranks_in_the_timed_steps_themselves_is_none_of_their_kernels() -> None:
    """They were later in the rounds that were sampled, by chance."""
    late = tuple(SyncRound(number=n, own=0.005, apart=0.009, on_device=True) for n in range(30))
    told = device_ledger(process(0.003, standing=0.004, meetings=late))
    assert (told["compute"], told["communication"]) == pytest.approx((0.3, 0.4))


def test_standing_for_another_device_of_the_process_is_no_compute() -> None:
    told = device_ledger(process(0.004, crossing=0.002))
    assert told == pytest.approx(
        {"compute": 0.4, "copies": 0.2, "other-device": 0.2, "host-bound": 0.1, "starved": 0.1}
    )


def test_what_the_loop_pauses_is_told_apart_from_its_steps() -> None:
    told = device_ledger(process(0.004, mean=0.010, paused=0.010))
    assert told == pytest.approx({"compute": 0.2, "copies": 0.1, "host-bound": 0.15, "starved": 0.05, "paused": 0.5})
    told = device_ledger(process(0.006, mean=0.003, paused=0.007))  # the device works on in it
    assert told == pytest.approx({"compute": 0.6, "copies": 0.2, "paused": 0.2})


def test_no_part_takes_more_than_is_left() -> None:
    told = device_ledger(process(0.020))
    assert told == pytest.approx({"compute": 0.8, "copies": 0.2})


def test_gaps_are_those_of_all_steps_and_not_of_the_few_that_were_timed() -> None:
    """These are 20 ms long, for the host was slow just then; a mean step of the loop takes 10."""
    told = device_ledger(process(0.004, whole=0.020, mean=0.010))
    assert told == pytest.approx({"compute": 0.4, "copies": 0.2, "host-bound": 0.4 * 13 / 14, "starved": 0.4 / 14})
