"""How a live run goes now: as fresh as the clock beside it, and steady where batches are few."""

import pytest

from gputune.core.sample import Metric, Reading, Sample
from gputune.core.units import NS
from gputune.feeds.present import BATCHES, SAMPLES, WAIT, Recent, wait_and_rate
from gputune.feeds.rows import Present, RunRow

METRICS = {name: Metric(name, "1", "", "gauge" if name == WAIT else "counter") for name in (WAIT, BATCHES, SAMPLES)}


def tick(at: float, *, batches: float, wait: float = 0.5) -> list[Reading]:
    """Return what the recorder counts at second `at`, with 32 samples a batch."""
    values = {WAIT: wait, BATCHES: batches, SAMPLES: 32 * batches}
    return [Sample(METRICS[name], round(at * NS), value) for name, value in values.items()]


def told(*ticks: list[Reading]) -> Recent:
    """Return one that has heard these."""
    recent = Recent()
    for each in ticks:
        recent.take(each)
    return recent


def test_of_nothing_nothing_is_known() -> None:
    assert told().present() is None
    assert told(tick(1, batches=3)).present() is None


def test_the_pace_is_of_the_last_seconds_and_not_of_the_whole_run() -> None:
    slow = [tick(k, batches=1.0 * k) for k in range(100)]
    fast = [tick(100 + k, batches=100 + 20 * k, wait=0.0) for k in range(21)]
    present = told(*slow, *fast).present()
    assert present is not None
    assert (present.at, present.rate, present.wait) == (120.0, 640.0, 0.0)


def test_where_batches_are_few_a_longer_stretch_is_looked_at() -> None:
    ticks = [tick(k, batches=k // 7) for k in range(200)]
    paces = [told(*ticks[:end]).present() for end in range(150, 200)]
    rates = [pace.rate for pace in paces if pace is not None and pace.rate is not None]
    assert max(rates) - min(rates) < 0.15 * 32 / 7


def test_batches_are_those_of_the_verdict_and_what_came_since() -> None:
    recent = told(*(tick(k, batches=10.0 * k) for k in range(100)))
    present = recent.present(555, 70.0)  # the verdict counts other things than the recorder
    assert present is not None
    assert present.batches == 555 + 290


def test_another_recorder_counts_anew() -> None:
    recent = told(*(tick(k, batches=10.0 * k) for k in range(20)), *(tick(20 + k, batches=10.0 * k) for k in range(5)))
    present = recent.present()
    assert present is not None
    assert present.rate == 320.0


def test_of_a_node_the_present_of_its_runs_is_told_where_it_is_known() -> None:
    runs = [RunRow(id=str(k), node="m8", name="", present=Present(at=9.0, rate=100.0, wait=0.2 * k)) for k in range(3)]
    assert wait_and_rate([*runs, RunRow(id="x", node="m8", name="")]) == (pytest.approx(0.2), 300.0)
    assert wait_and_rate([]) == (None, None)
