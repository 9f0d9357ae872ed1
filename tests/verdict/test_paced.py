"""A finding about the training's own thread is worth what slowing that thread down has shown, and no more."""

from dataclasses import replace
from typing import Any

import pytest

from gputune.core.finding import Finding, Speedup
from gputune.features import Features, Loader, Machine, Process, Slope
from gputune.verdict.paced import paced

GAIN = Speedup(low=1.4, likely=1.5, high=1.7)


def slope(value: float, error: float = 0.05) -> Slope:
    return Slope(value=value, error=error, count=9, delay=0.002)


def finding(name: str = "work-after-step", **differs: Any) -> Finding:
    return Finding(
        id=name, says="it", do="it", share_lost=1 / 3, speedup=GAIN, basis="the model", falsified_by="f",
        effect="identical", where="train.py:9", **{"evidence": {"n": 1.0}, **differs},
    )  # fmt: skip


def loader(**differs: Any) -> Loader:
    return Loader(
        **{
            "where": "train.py:9", "num_workers": 2, "prefetch_factor": 2, "pin_memory": False,
            "persistent_workers": False, "batch_size": 4, **differs,
        }
    )  # fmt: skip


def process(pace: Slope | None, **differs: Any) -> Process:
    facts: dict[str, Any] = {"pid": 1, "rank": None, "wall": 60.0, "ledger": {}, "inclusive": {}, "loop": 50.0}
    facts |= {"batches": 2000, "samples": 8000, "optimizer_steps": 2000, "built": "", "loaders": (loader(),)}
    return Process(**{**facts, "pace": pace, **differs})


def run(*processes: Process, busy: float | None = 2.0) -> Features:
    machine = Machine(cpus=8, cpus_seen=8, busy=busy)
    return Features(command=("python",), wall=60.0, machine=machine, processes=processes)


def test_what_was_not_measured_is_as_predicted() -> None:
    assert paced(run(process(None)), finding()) == finding()
    assert paced(run(process(slope(0.5, error=0.4))), finding()) == finding()


@pytest.mark.parametrize("name", ["work-after-step", "preprocessing-in-loop", "python-in-step", "small-batch"])
def test_work_that_is_hidden_is_worth_nothing(name: str) -> None:
    found = paced(run(process(slope(0.02))), finding(name))
    assert found.speedup.likely == pytest.approx(1 / (1 - 0.02 / 3))
    assert found.speedup.sure == 1.0
    assert found.share_lost < 0.01
    assert found.basis.startswith(
        "measured: held up 2 ms a round, 9 times for 8 rounds, these took 2% of that longer; "
    )
    assert found.evidence["slope"] == 0.02


def test_work_that_is_hidden_by_half_is_worth_half_of_itself() -> None:
    found = paced(run(process(slope(0.5))), finding())
    assert found.speedup.likely == pytest.approx(1 / (1 - 0.5 / 3))
    assert found.speedup.low == pytest.approx(1 / (1 - (1 - 1 / 1.4) * (0.5 - 1.65 * 0.05)))
    assert found.speedup.high == pytest.approx(1 / (1 - (1 - 1 / 1.7) * (0.5 + 1.65 * 0.05)))


def test_where_the_thread_sets_the_pace_the_gain_stands_and_was_measured() -> None:
    found = paced(run(process(slope(0.97))), finding())
    assert found.speedup == GAIN
    assert found.basis.startswith("measured")


def test_where_cpus_are_short_work_takes_them_from_others_and_nothing_is_concluded() -> None:
    assert paced(run(process(slope(0.0)), busy=7.9), finding()) == finding()
    assert paced(run(process(slope(0.0)), busy=None), finding()) == finding()


def test_in_a_step_on_a_device_only_what_is_at_the_same_place_is_held_against_it() -> None:
    on_device = run(process(slope(0.0), built="12.8"))
    assert paced(on_device, finding("python-in-step")) == finding("python-in-step")
    assert paced(on_device, finding("sync-every-step")) == finding("sync-every-step")
    assert paced(on_device, finding("host-bound")).speedup.likely == pytest.approx(1.0)


def test_a_pause_that_is_longer_than_what_was_tried_is_another_matter() -> None:
    hidden = run(process(slope(0.0)))
    short, long = (finding("frequent-logging", evidence={"each_s": each}) for each in (0.010, 0.030))
    assert paced(hidden, short).speedup.likely == pytest.approx(1.0)
    assert paced(hidden, long) == long


def test_a_pause_that_nobody_else_can_hide_goes_away_with_what_it_waits_for() -> None:
    """A disk writes while the thread is held up, so that the next fsync is shorter: it has none to write without it."""
    short = finding("frequent-logging", evidence={"each_s": 0.001})
    alone = process(slope(0.5), loaders=(loader(num_workers=0),), built="")
    assert paced(run(alone), short) == short
    assert paced(run(alone, replace(alone, pid=2)), short) != short
    assert paced(run(alone), finding("python-in-step")) != finding("python-in-step")


def test_workers_bring_nothing_where_the_thread_sets_the_pace() -> None:
    found = paced(run(process(slope(1.0, error=0.03))), finding("few-workers"))
    assert found.speedup.likely == pytest.approx(1 / (1 - 1.65 * 0.03))
    assert found.basis.startswith("measured")
    assert paced(run(process(slope(0.3))), finding("few-workers")) == finding("few-workers")


def test_without_workers_the_thread_makes_the_batches_itself() -> None:
    inline = process(slope(1.0), loaders=(loader(num_workers=0),))
    assert paced(run(inline), finding("few-workers")) == finding("few-workers")


@pytest.mark.parametrize(("pace", "worth"), [(0.02, False), (0.98, True)])
def test_a_late_rank_is_one_that_the_others_wait_for(pace: float, worth: bool) -> None:
    ranks = run(process(slope(0.9), rank=0), process(slope(pace), rank=1, pid=2))
    late = finding("straggling-rank", evidence={"rank": 1.0})
    assert (paced(ranks, late).speedup == GAIN) is worth
    assert paced(ranks, late).basis.startswith("measured")


def test_of_ranks_the_one_counts_that_sets_the_pace_if_all_are_known() -> None:
    both = run(process(slope(0.02), rank=0), process(slope(0.98), rank=1, pid=2))
    assert paced(both, finding()).speedup == GAIN
    some = run(process(slope(0.02), rank=0), process(None, rank=1, pid=2))
    assert paced(some, finding()) == finding()


def test_a_risk_is_no_gain() -> None:
    risk = replace(finding(), risk="memory ends in an hour")
    assert paced(run(process(slope(0.0))), risk) == risk
