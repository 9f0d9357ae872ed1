"""device-throttled speaks when something holds the clocks down, and names it."""

import pytest

from gputune.advisors.device_throttled import advise

HOT = {"clock": 0.99e9, "throttled": {"hardware thermal slowdown": 0.8, "power cap": 0.1}, "busy": 1.0}


def test_is_silent_at_full_clock(run, device) -> None:
    assert list(advise(run(devices=(device(),)))) == []


def test_is_silent_about_low_clocks_that_nothing_holds_down(run, device) -> None:
    assert list(advise(run(devices=(device(clock=0.5e9),)))) == []


def test_is_silent_about_a_reason_that_hardly_costs_any_clock(run, device) -> None:
    assert list(advise(run(devices=(device(clock=1.85e9, throttled={"power cap": 0.9}),)))) == []


def test_is_silent_about_a_reason_that_shows_now_and_then(run, device) -> None:
    assert list(advise(run(devices=(device(**{**HOT, "throttled": {"power cap": 0.1}}),)))) == []


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
