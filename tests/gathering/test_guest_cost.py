"""What the guest took of the training is known from what it measured of itself."""

from gputune.events import Event, Kind, Record
from gputune.gathering import Gatherer
from gputune.sample import Guest


def told(*costs_ns: int) -> Gatherer:
    gatherer = Gatherer(("python", "train.py"), 0)
    gatherer.take([Guest(0, 10, 1, 0, 0, "main", "ring")])
    gatherer.take([Event(0, Record(Kind.GUEST, 0, i, i + 9000, cost, 0, 0, 0, 0)) for i, cost in enumerate(costs_ns)])
    return gatherer


def test_it_is_unknown_before_the_first_sampled_batch() -> None:
    assert told().guest_cost() is None


def test_it_is_the_median_so_that_one_interruption_does_not_count() -> None:
    assert told(2000, 3000, 900_000).guest_cost() == 3e-6
