"""Who sets the pace is said where slowing the training's thread down has shown it."""

from collections.abc import Callable
from typing import Any

import pytest

from gputune.features import Device, DeviceStep, Process, Slope
from gputune.report.summary import sentence
from gputune.verdict.building import build
from gputune.verdict.document import Overhead

HEALTHY = {"step": 57.0, "loader.wait": 1.7, "startup": 2.5}
WAITING = {"step": 49.0, "loader.wait": 9.7, "startup": 2.5}
CARD = (Device(index="0", name="NVIDIA H200", busy=0.95),)
Make = Callable[..., Any]


def pace(value: float, error: float = 0.05) -> Slope:
    return Slope(value=value, error=error, count=9, delay=0.002)


@pytest.mark.parametrize(
    ("slope", "ledger", "devices", "ends"),
    [
        (None, HEALTHY, CARD, "is the step"),
        (pace(0.5, 0.3), HEALTHY, CARD, "is the step"),
        (pace(0.97), HEALTHY, CARD, "is the step; measured: the training thread sets the pace"),
        (pace(0.02), HEALTHY, CARD, "is the step; measured: the device sets the pace"),
        (pace(0.02), WAITING, CARD, "the step; measured: the loader sets the pace"),
        (pace(0.02), HEALTHY, (), "it waits for something that is not seen here"),
    ],
)
def test_it_is_the_end_of_the_sentence(
    features: Make,
    process: Make,
    *,
    slope: Slope | None,
    ledger: dict[str, float],
    devices: tuple[Device, ...],
    ends: str,
) -> None:
    run = features(processes=(process(pace=slope, ledger=ledger),), devices=devices)
    assert sentence(build(run, (), overhead=Overhead())).endswith(ends)


def test_what_waits_for_something_unseen_is_not_called_well(features: Make, process: Make) -> None:
    run = features(processes=(process(pace=pace(0.02), ledger=HEALTHY),), devices=())
    assert "nothing to gain" not in sentence(build(run, (), overhead=Overhead()))


def test_of_ranks_one_that_sets_it_is_enough_and_all_must_be_known(features: Make, process: Make) -> None:
    def said(*slopes: Slope | None) -> str:
        each: tuple[Process, ...] = tuple(
            process(pace=slope, ledger=HEALTHY, rank=n, pid=n) for n, slope in enumerate(slopes)
        )
        return sentence(build(features(processes=each, devices=CARD), (), overhead=Overhead()))

    assert said(pace(0.02), pace(0.95)).endswith("the training thread sets the pace")
    assert said(pace(0.02), pace(0.03)).endswith("the device sets the pace")
    assert said(pace(0.02), None).endswith("is the step")


@pytest.mark.parametrize(("compute", "sync"), [(None, 35.0), (0.02, 35.0), (None, 3.0)])
def test_a_loop_that_waits_for_a_device_whose_work_is_not_known_is_not_called_well(
    features: Make, process: Make, *, compute: float | None, sync: float
) -> None:
    step = DeviceStep(
        timed=20, whole=0.05, starved=0.0, copying=0.001, compute=compute, read_waits=0.03, copy_waits=0.0
    )
    ledger = {"step": 57.0 - sync, "sync": sync, "startup": 2.5}
    run = features(processes=(process(pace=None, ledger=ledger, device_step=step),), devices=CARD)
    said = sentence(build(run, (), overhead=Overhead()))
    unknown = compute is None and sync > 10
    assert ("waits for the device, and how much that has to do is not known yet: let it run longer" in said) is unknown
    assert ("no change was found that is sure to help" in said) is unknown
