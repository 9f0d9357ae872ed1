"""A device that was read in a part of the loop: nothing of it is taken for the whole."""

from dataclasses import replace

import pytest

from gputune.core.finding import Finding, Speedup
from gputune.features import Device, Features, Lacking
from gputune.report.words import times
from gputune.verdict.building import build
from gputune.verdict.document import Overhead
from gputune.verdict.judging import judge
from gputune.verdict.partly import as_read, unread
from gputune.verdict.spending import spending
from tests.advisors.conftest import pretend

GAIN = Speedup(low=1.8, likely=2.4, high=2.8)


def card(**differs: object) -> Device:
    facts = {
        "index": "0",
        "name": "A card",
        "busy": 0.3,
        "power": 100.0,
        "idle": 5.0,
        "energy": 900.0,
        "idle_power": 40.0,
    }
    return Device(**{**facts, **differs})  # type: ignore[arg-type] # facts by name


def starving(*devices: Device, **differs: object) -> Features:
    """A loop that waits for most of its time for batches of two workers, beside these devices."""
    run = pretend(num_workers=2, cpu=0.030, step=0.005, cpus=16.0, devices=devices)
    return replace(run, **differs)  # type: ignore[arg-type] # as above


def finding(name: str = "few-workers", gain: Speedup = GAIN) -> Finding:
    return Finding(
        id=name, says="", do="", share_lost=0.5, speedup=gain, basis="a replay", falsified_by="", effect="identical",
        evidence={"x": 1.0},
    )  # fmt: skip


def test_a_device_that_was_read_throughout_changes_nothing() -> None:
    run = starving(card(coverage=0.9))
    assert as_read(run) is run
    assert unread(run, finding(), run) == finding()


def test_means_of_the_first_seconds_are_not_shown_to_advisors() -> None:
    (shown,) = as_read(starving(card(coverage=0.3, clock=1e9, sm_active=0.1, memory_used=5, xids={79: 1}))).devices
    assert (shown.busy, shown.power, shown.clock, shown.sm_active) == (None, None, None, None)
    assert (shown.memory_used, shown.xids) == (5, {79: 1})


@pytest.mark.parametrize("device", [card(coverage=0.3), card(busy=None), card(busy=0.01, coverage=0.1)])
def test_beside_a_device_whose_use_is_not_known_a_gain_is_at_least(device: Device) -> None:
    seen = starving(device)
    found = unread(as_read(seen), finding(), seen)
    assert found.speedup.at_least
    assert (found.speedup.low, found.speedup.likely) == (GAIN.low, GAIN.low)
    assert found.share_lost == pytest.approx(1 - 1 / GAIN.low)
    assert times(found.speedup) == "at least ×1.8"  # type: ignore[arg-type] # a row has the same fields


def test_the_part_that_was_read_bounds_the_low_end() -> None:
    seen = starving(card(busy=0.8, coverage=0.5))
    assert unread(as_read(seen), finding(), seen).speedup.low == pytest.approx(1 / 0.8)


def test_a_device_with_a_clock_of_its_own_needs_no_reading() -> None:
    seen = starving(card(busy=None))
    clocked = replace(seen, processes=tuple(replace(p, works=(0.004,) * 99, gaps=(0.01,) * 99) for p in seen.processes))
    assert not unread(clocked, finding(), clocked).speedup.at_least


def test_what_no_device_hides_is_told_as_before() -> None:
    seen = starving(card(busy=None))
    assert unread(seen, finding("memory-growth"), seen).speedup == GAIN


def test_the_verdict_tells_the_part_and_the_reason_and_no_joules() -> None:
    lost = (Lacking("device", "device 0", "GPU is lost"),)
    seen = starving(card(coverage=0.1234), lacking={"nvml": lost}, unavailable={"nvml": "some of it"})
    row = build(seen, judge(seen), overhead=Overhead()).device
    assert (row.busy, row.coverage, row.why) == (0.3, 0.1234, "GPU is lost")
    spent = spending(seen, samples_per_s=100.0)
    assert spent is not None
    assert (spent.samples_per_j, spent.energy_j, spent.waiting_s, spent.waiting_j) == (None,) * 4
    whole = spending(starving(card()), samples_per_s=100.0)
    assert whole is not None
    assert whole.samples_per_j == pytest.approx(1.0)


def test_what_is_judged_of_such_a_run_is_at_least() -> None:
    (found,) = [f for f in judge(starving(card(coverage=0.2))) if f.id == "few-workers"]
    assert found.speedup.at_least
    (whole,) = [f for f in judge(starving(card())) if f.id == "few-workers"]
    assert not whole.speedup.at_least
