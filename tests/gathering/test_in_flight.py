"""How many batches are being made while one of them is, on average and as it was begun."""

from gputune.core.events import Kind, Record
from gputune.gathering.in_flight import Fetches, Made, in_flight


def test_each_is_counted_with_itself() -> None:
    spans = [(0, 10), (5, 15), (20, 30)]
    meanwhile, ahead = in_flight(spans, spans)
    assert meanwhile == (1.5, 1.5, 1.0)
    assert ahead == (1, 2, 1)


def test_one_that_ends_as_another_begins_is_no_company() -> None:
    assert in_flight([(10, 20)], [(0, 10), (10, 20)]) == ((1.0,), (1,))


def test_the_latest_are_kept_with_what_was_beside_them() -> None:
    fetches = Fetches(kept=2)
    for number in range(4):
        fetches.under_way(number * 10, number * 10 + 15)
        record = Record(int(Kind.FETCH), 0, number * 10, number * 10 + 15, 0, 0, 0, 0, number)
        fetches.append(Made((-number,), record, worker=0, age=number, alone=True))
    made, meanwhile, ahead = fetches.in_order(alone=False)
    assert [each.samples for each in made] == [3, 2]  # in the order of delivery
    assert meanwhile == (20 / 15, 25 / 15)
    assert ahead == (2, 2)
    assert fetches.in_order(alone=True)[1:] == ((), ())
