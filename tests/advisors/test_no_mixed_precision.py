"""no-mixed-precision speaks when tensor cores are there, the device works, and they do not."""

import pytest

from gputune.advisors.no_mixed_precision import advise

SINGLE = {"busy": 1.0, "capability": 9.0, "sm_active": 0.8, "tensor_active": 0.0, "dram_active": 0.4}


@pytest.mark.parametrize(
    "differs",
    [
        {"tensor_active": 0.2},
        {"tensor_active": None},  # no counters: an older card
        {"sm_active": None},
        {"capability": None},
        {"capability": 6.1},
        {"capability": 7.5, "name": "NVIDIA GeForce GTX 1660"},
        {"busy": 0.3, "sm_active": 0.25},  # it idles: something else comes first
        {"sm_active": 0.1},  # small kernels: arithmetic does not hold them up
    ],
)
def test_is_silent_where_tensor_cores_work_are_missing_or_not_known(run, device, differs) -> None:
    assert list(advise(run(devices=(device(**{**SINGLE, **differs}),)))) == []


def test_names_what_idles_and_promises_an_honest_range(run, device) -> None:
    (finding,) = advise(run(devices=(device(**SINGLE),)))
    assert finding.id == "no-mixed-precision"
    assert "its multiprocessors are active 80%, its tensor cores 0.0%" in finding.says
    assert "autocast" in finding.do
    assert finding.effect == "changes-learning"
    assert (finding.speedup.low, finding.speedup.likely) == pytest.approx((1.25 * 0.95, 2.0))


def test_only_the_busy_time_gets_shorter(run, device) -> None:
    (finding,) = advise(run(devices=(device(**{**SINGLE, "busy": 0.6, "sm_active": 0.5}),)))
    assert finding.speedup.likely == pytest.approx(1 / 0.7)


def test_a_stray_tensor_operation_is_no_half_precision(run, device) -> None:
    assert len(list(advise(run(devices=(device(**{**SINGLE, "tensor_active": 0.01}),))))) == 1
