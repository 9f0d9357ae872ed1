"""What a sweep takes in the end: the best of what there is room for."""

from gputune.company import Company
from gputune.sweep.choosing import Tally
from gputune.sweep.limits import Limits
from gputune.sweep.search import Found
from gputune.sweep.settings import setting
from gputune.sweep.sweeping import chosen

GIB = 1 << 30
OWN, FOUR, EIGHT = (setting(n, 2, pin_memory=False, persistent=False) for n in (0, 4, 8))
ROOM = Limits(workers=64, batches=1e9, memory=9.0 * GIB, worker=GIB, batch=0, script=OWN)


def found(*, company: Company = Company()) -> Found:  # noqa: B008 - a tuple
    """Own settings at 100 samples/s, four workers at 400 and eight at 500, all seen twice."""
    rates = {OWN: 100.0, FOUR: 400.0, EIGHT: 500.0}
    tallies = {s: Tally(setting=s, noise=0.005, visits=[(rate,) * 5] * 2) for s, rate in rates.items()}
    return Found(predicted=rates, tallies=tallies, company=company)


def test_the_best_is_taken_where_there_is_room() -> None:
    winner, says = chosen(found(), OWN, ROOM)
    assert (winner.setting, says) == (EIGHT, [])


def test_what_turns_out_not_to_fit_is_not_taken_and_said() -> None:
    met = found(company=Company(2, 2, 1))
    winner, says = chosen(met, OWN, ROOM.beside(met.company))
    assert winner.setting == FOUR
    assert says == [
        "num_workers=8 prefetch_factor=2 is not taken: it would take 17.2 GB more memory with 2 loaders at once, "
        "and 9.66 GB may be used"
    ]
