"""A device that failed, or that a training did not use, is one sentence with its reason."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gputune.core.sample import LOST
from gputune.features import Allocator, Device, Failure, Features, Lacking, Process, Unused
from gputune.report import troubled
from gputune.report.terminal import render
from gputune.verdict.building import Overhead, build
from gputune.verdict.failing import failed, unused

Make = Callable[..., Features]
WHAT = "CUDA error: unspecified launch failure"
CARD = Device(index="0", name="H200")
FAILED = Failure(gpu="0", pid=1, rank=None, what=WHAT, where="train.py:31", ended=True)
ALONE = Unused(pid=7, rank=None, built="13.0", driver=13000, visible=None, forked=False)


def test_nothing_is_said_where_nothing_went_wrong(features: Make) -> None:
    assert (troubled.failure(failed(features())), troubled.unused(unused(features()))) == ("", "")


def test_a_lost_device_is_told_with_its_xid_and_line(features: Make) -> None:
    gone = {"nvml": (Lacking("", "device 0", f"{LOST} (dmesg)"),)}
    run = features(failures=(FAILED,), devices=(replace(CARD, xids={79: 1}),), lacking=gone)
    said = f"GPU 0 was lost (Xid 79) at train.py:31: {WHAT}"
    assert troubled.failure(failed(run)) == said
    verdict = build(run, [], overhead=Overhead())
    assert said in render(verdict, width=100)


def test_an_error_that_leaves_the_device_there_is_a_failure(features: Make) -> None:
    caught = replace(FAILED, gpu="", ended=False)
    said = troubled.failure(failed(features(failures=(caught,))))
    assert said == f"CUDA failed at train.py:31: {WHAT}; it is not what ended the script"
    said = troubled.failure(failed(features(failures=(replace(caught, rank=3), replace(FAILED, rank=1)))))
    assert said == f"GPU 0 failed at train.py:31 on rank 1, and 1 more process failed: {WHAT}"


@pytest.mark.parametrize(
    ("found", "devices", "said"),
    [
        (replace(ALONE, driver=12040), (CARD,), "the driver (CUDA 12.4) is too old for this torch (CUDA 13.0)"),
        (replace(ALONE, visible=""), (), "CUDA_VISIBLE_DEVICES is empty"),
        (replace(ALONE, visible="GPU-77"), (), "CUDA_VISIBLE_DEVICES is GPU-77"),
        (replace(ALONE, forked=True), (CARD,), "it was forked from a process that had used CUDA (start it with spawn)"),
        (ALONE, (CARD,), "the script asked for no device, though its torch is built for one"),
    ],
)
def test_why_a_training_ran_without_cuda(features: Make, found: Unused, devices: Any, said: str) -> None:
    who = "process 7" if found.forked else "the training"
    assert troubled.unused(unused(features(unused=(found,), devices=devices))) == f"{who} did not use CUDA: {said}"


def test_a_machine_without_a_device_needs_no_word(features: Make) -> None:
    assert unused(features(unused=(ALONE,), devices=())) == []


def test_of_two_devices_of_a_process_the_one_that_was_lost_is_named(
    features: Make, process: Callable[..., Process]
) -> None:
    """What it is asked for memory on is told seldom: it had been seen on the other one alone."""
    gone = {"nvml": (Lacking("", "device 1", f"{LOST} (dmesg)"),)}
    run = features(failures=(FAILED,), devices=(CARD, replace(CARD, index="1")), lacking=gone)
    assert troubled.failure(failed(run)).startswith("GPU 1 was lost at train.py:31")
    there = Allocator(index="1", live=None, last=0, least=0, peak=0, reserved=0)
    other = replace(run, processes=(process(pid=2, allocators=(there,)),))
    assert troubled.failure(failed(other)).startswith("GPU 0 failed at train.py:31")
