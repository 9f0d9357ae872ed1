"""blocking-copy speaks when the training waits for copies that it need not wait for."""

from dataclasses import replace

import pytest

from gputune.advisors.blocking_copy import advise
from gputune.features import Copy, Features


def copying(run: Features, *, sync: float = 0.0, **differs: object) -> Features:
    """The run with 400 copies of 24 MB from pinned memory, 1 ms on the link, each waited for 15 ms."""
    facts = {"where": "train.py:52", "what": "Tensor.to", "count": 400, "seconds": 6.0, "size": 400 * 24_000_000}
    copy = Copy(**{**facts, "pinned": 1.0, "non_blocking": 0.0, "fastest": 24e9, **differs})
    loops = tuple(replace(p, copies=(copy,), in_loop={**p.in_loop, "sync": sync}) for p in run.processes)
    return replace(run, processes=loops)


@pytest.fixture
def half(run, device) -> Features:
    """Steps of 40 ms, of which the device works 20."""
    return run(num_workers=4, blocked=0.001, step=0.040, devices=(device(busy=0.5),))


def test_is_silent_without_copies_and_about_pageable_ones(half) -> None:
    assert list(advise(half)) == []
    assert list(advise(copying(half, pinned=0.0))) == []


def test_is_silent_about_copies_that_nobody_waits_for(half) -> None:
    assert list(advise(copying(half, non_blocking=1.0))) == []


def test_names_the_wait_and_what_overlapping_buys(half) -> None:
    (finding,) = advise(copying(half))
    assert finding.id == "blocking-copy"
    assert "15 ms a step, of which the link needs 1 ms" in finding.says
    assert finding.do == "copy with non_blocking=True"
    assert finding.where == "train.py:52"
    assert finding.effect == "identical"
    assert finding.speedup.likely == pytest.approx(40.5 / 25.5, rel=0.02)  # the host's own 25 ms beside the device's 21
    assert finding.speedup.low < finding.speedup.likely


def test_where_the_loop_waits_for_the_device_anyway_only_the_copy_itself_can_run_beside_it(half) -> None:
    (finding,) = advise(copying(half, sync=4.0))
    assert 1.0 < finding.speedup.likely < 40.5 / 39.5
    assert finding.evidence["sync_s"] == pytest.approx(0.010)


def test_promises_nothing_where_the_device_is_busy_all_the_time(run, device) -> None:
    busy = run(num_workers=4, blocked=0.001, step=0.040, devices=(device(busy=0.98),))
    assert all(f.speedup.likely < 1.05 for f in advise(copying(busy)))
