"""device-throttled speaks when something holds the clocks down, and names it."""

from dataclasses import replace

import pytest

from gputune.advisors.device_throttled import advise

HOT = {"clock": 0.99e9, "throttled": {"hardware thermal slowdown": 0.8, "power cap": 0.1}, "busy": 1.0}


def test_is_silent_at_full_clock(run, device) -> None:
    assert list(advise(run(devices=(device(),)))) == []


def test_is_silent_about_low_clocks_that_nothing_holds_down(run, device) -> None:
    assert list(advise(run(devices=(device(clock=0.5e9),)))) == []


def test_is_silent_about_a_reason_that_hardly_costs_any_clock(run, device) -> None:
    assert list(advise(run(devices=(device(clock=1.85e9, throttled={"hardware slowdown": 0.9}),)))) == []


def test_is_silent_about_a_reason_that_shows_now_and_then(run, device) -> None:
    assert list(advise(run(devices=(device(**{**HOT, "throttled": {"hardware slowdown": 0.1}}),)))) == []


def test_is_silent_about_a_card_at_its_own_power_limit_which_runs_below_its_highest_clock(run, device) -> None:
    full = device(clock=1.4e9, throttled={"power cap": 0.95}, power_limit=700.0, power_default=700.0)
    assert list(advise(run(devices=(full,)))) == []
    assert list(advise(run(devices=(replace(full, power_default=None),)))) == []  # who knows what it was built for
    rare = replace(full, throttled={"power cap": 0.95, "software thermal slowdown": 0.1})
    assert list(advise(run(devices=(rare,)))) == []


def test_heat_is_named_though_the_power_cap_shows_more_often(run, device) -> None:
    hot = device(clock=1.4e9, throttled={"power cap": 0.95, "software thermal slowdown": 0.4})
    (finding,) = advise(run(devices=(hot,)))
    assert "software thermal slowdown in 40%" in finding.says


def test_a_power_limit_that_somebody_lowered_is_named_with_the_devices_own(run, device) -> None:
    held = device(clock=1.2e9, throttled={"power cap": 0.95}, power_limit=400.0, power_default=700.0)
    (finding,) = advise(run(devices=(held,)))
    assert "power cap in 95%" in finding.says
    assert "held to 400 of its 700 W" in finding.says
    assert "400 W" in finding.do
    assert (finding.evidence["power_limit_w"], finding.evidence["power_default_w"]) == (400.0, 700.0)


def test_is_silent_where_clocks_cannot_be_read(run, device) -> None:
    assert list(advise(run(devices=(device(**{**HOT, "clock_max": None}),)))) == []


def test_names_the_reason_the_clocks_and_what_they_cost(run, device) -> None:
    (finding,) = advise(run(devices=(device(**HOT),)))
    assert finding.id == "device-throttled"
    assert "990 of 1980 MHz" in finding.says
    assert "hardware thermal slowdown in 80%" in finding.says
    assert finding.speedup.likely == pytest.approx(2.0)


def test_only_the_busy_time_gets_shorter(run, device) -> None:
    (finding,) = advise(run(devices=(device(**{**HOT, "busy": 0.5}),)))
    assert finding.speedup.likely == pytest.approx(1 / 0.75)


def test_speaks_for_every_device_that_is_held_down(run, device) -> None:
    findings = list(advise(run(devices=(device(**HOT), device(**HOT, index="1"), device(index="2")))))
    assert [f.says.split(" (")[0] for f in findings] == ["GPU 0", "GPU 1"]


def test_what_the_devices_clock_says_bounds_it_and_not_what_nvml_calls_busy(run, device, clocked) -> None:
    (finding,) = advise(clocked(run(devices=(device(**HOT),)), 0.3))
    assert finding.speedup.likely == pytest.approx(1 / (1 - 0.3 / 2))
