"""unpinned-memory speaks when copies from pageable memory hold the training up."""

from dataclasses import replace

import pytest

from gputune.advisors.unpinned_memory import advise
from gputune.features import Copy, Features


def copying(run: Features, **differs: object) -> Features:
    """The run with 400 copies of 60 MB that each hold the training for 10 ms, from pageable memory."""
    facts = {"where": "train.py:52", "what": "Tensor.to", "count": 400, "seconds": 4.0, "size": 400 * 60_000_000}
    copy = Copy(**{**facts, "pinned": 0.0, "non_blocking": 0.0, "fastest": 6e9, **differs})
    return replace(run, processes=tuple(replace(p, copies=(copy,)) for p in run.processes))


@pytest.fixture
def half(run, device) -> Features:
    """Steps of 40 ms, of which the device works 20."""
    return run(num_workers=4, blocked=0.001, step=0.040, devices=(device(busy=0.5),))


def test_is_silent_without_copies(half) -> None:
    assert list(advise(half)) == []


def test_is_silent_about_pinned_memory(half) -> None:
    assert list(advise(copying(half, pinned=1.0))) == []


def test_is_silent_about_copies_that_take_next_to_no_time(half) -> None:
    assert list(advise(copying(half, seconds=0.2))) == []


def test_is_silent_where_no_device_was_measured(run) -> None:
    assert list(advise(copying(run(num_workers=4, blocked=0.001, step=0.040)))) == []


def test_names_the_copies_and_what_pinning_buys(half) -> None:
    (finding,) = advise(copying(half))
    assert finding.id == "unpinned-memory"
    assert "60 MB a step in 10 ms" in finding.says
    assert finding.where == "train.py:52"
    assert finding.change == {"pin_memory": True, "non_blocking": True}
    assert "non_blocking=True" in finding.do
    assert finding.effect == "identical"
    assert 1.0 < finding.speedup.low < finding.speedup.likely <= finding.speedup.high
    # The host has 30 ms of its own, the device 20 and 5 more for the copy, side by side: 30 instead of 40.
    assert finding.speedup.likely == pytest.approx(40.5 / 30.5, rel=0.02)
    # Pinned alone, the copy is still waited for, and takes 5 ms instead of 10.
    assert finding.part.likely == pytest.approx(40.5 / 35.5, rel=0.02)
    assert finding.part.likely < finding.speedup.likely


def test_where_nobody_means_to_wait_the_dataloader_alone_is_to_be_changed(half) -> None:
    (finding,) = advise(copying(half, non_blocking=1.0))
    assert finding.change == {"pin_memory": True}
    assert finding.do == "set pin_memory=True in the DataLoader"
    assert finding.part is None


def test_is_sure_of_half_of_it_where_the_link_itself_is_quick(half) -> None:
    """As in the zoo: the copy waits for the kernels before it, and its own part is small."""
    (finding,) = advise(copying(half, size=400 * 12_000_000))
    assert "12 MB a step in 10 ms" in finding.says
    assert finding.evidence["link_s"] == pytest.approx(0.002)
    assert finding.speedup.likely == pytest.approx(40.5 / 30.5, rel=0.02)
    assert finding.speedup.low == pytest.approx(40.5 / 35.5 * 0.95, rel=0.02)


def test_promises_only_the_link_where_the_device_is_busy(run, device) -> None:
    busy = run(num_workers=4, blocked=0.001, step=0.040, devices=(device(busy=0.74),))
    (finding,) = advise(copying(busy))
    assert finding.speedup.likely == pytest.approx(40.5 / (0.74 * 40.5 + 5), rel=0.02)


def test_promises_nothing_that_the_loader_cannot_deliver(run, device) -> None:
    starved = run(num_workers=1, blocked=0.039, step=0.040, waits=[0.0005], devices=(device(busy=0.3),))
    assert all(f.speedup.likely < 1.05 for f in advise(copying(starved)))


def test_what_workers_and_host_compute_on_few_cpus_bounds_it_and_at_best_they_are_not_in_each_others_way(
    run, device
) -> None:
    roomy, full = (
        run(num_workers=2, cpu=0.050, step=0.040, step_cpu=0.028, cpus=cpus, devices=(device(busy=0.3),))
        for cpus in (8.0, 2.0)
    )
    (free,), (bound,) = (list(advise(copying(each))) for each in (roomy, full))
    assert bound.speedup.likely < free.speedup.likely * 0.95
    assert bound.speedup.high == pytest.approx(free.speedup.high, rel=0.02)
