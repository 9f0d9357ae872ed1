"""What the guest took of the training, and what its sampled steps say, is known from what it measured of itself."""

from typing import Any

import pytest

from gputune.core.events import Event, Kind, Record
from gputune.core.sample import Guest, Note
from gputune.gathering import Gatherer


def told(*costs_ns: int, batches: int = 0, sampling_ns: int = 0) -> Gatherer:
    """Sampled batches of a loader that gave `batches` in all."""
    gatherer = Gatherer(("python", "train.py"), 0)
    gatherer.take([Guest(0, 10, 1, 0, 0, "main", "ring"), Note(0, {"n": "loader", "id": 1, "where": "train.py:1"})])
    records = [Record(Kind.ITERATOR, 0, 0, 0, 1, 1, 0, 1, 0)]
    records += [Record(Kind.GUEST, 0, i, i + 9000, cost, 0, 1, 0, sampling_ns) for i, cost in enumerate(costs_ns)]
    records += [Record(Kind.BATCH, 0, i * 10, i * 10 + 1, 1, i, 0, 0, 4) for i in range(batches)]
    gatherer.take([Event(0, record) for record in records])
    return gatherer


def test_it_is_unknown_before_the_first_sampled_batch() -> None:
    assert told().guest_cost() is None


def test_it_is_the_median_so_that_one_interruption_does_not_count() -> None:
    assert told(2000, 3000, 900_000).guest_cost() == 3e-6


def test_what_only_sampled_batches_cost_is_spread_over_all() -> None:
    assert told(3000, 3000, batches=20, sampling_ns=10_000).guest_cost() == pytest.approx(4e-6)


def test_the_cpu_time_of_sampled_steps_is_kept_without_the_warm_up(story: Any) -> None:
    story.iterator(7)
    for index in range(8):
        story.batch(7)
        story.step(10)
        story.record(Kind.GUEST, story.at - 10, story.at - 9, a=3000, b=2_000_000, d=7, e=5_000_000 + index)
    story.record(Kind.GUEST, story.at - 10, story.at - 9, a=3000, d=8, e=1)  # of an iterator that nobody told of
    (loader,) = story.features().processes[0].loaders
    assert loader.step_cpus == pytest.approx([0.005] * 5, rel=1e-3)
    assert loader.next_cpus == pytest.approx([0.002] * 5)
    assert len(loader.steps) == 4  # the last step is over, but no batch says so yet
