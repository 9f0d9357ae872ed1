"""Of two rates that cannot be told apart the cheaper setting wins; the script's own is left only for what is faster."""

import random

import pytest

from gputune.experiment.measured import gain, unsteadiness
from gputune.sweep.choosing import RateOrder, SettingStats, as_fast, best, order, pays, ratio
from gputune.sweep.settings import LoaderSetting, setting


def workers(number: int) -> LoaderSetting:
    return setting(number, 2, pin_memory=False, persistent=False, batch_size=8)


def stats(number: int, rate: float, *, spread: float = 0.01, noise: float = 0.005, visits: int = 1) -> SettingStats:
    """A setting with so many workers, whose parts differ by `spread` (relative, standard deviation)."""
    chance = random.Random(number)
    parts = [[rate * (1 + spread * chance.gauss(0, 1)) for _ in range(10)] for _ in range(visits)]
    return SettingStats(setting=workers(number), noise=noise, visits=parts)


def test_the_interval_holds_the_rate_and_shrinks_with_visits() -> None:
    once, often = stats(2, 100.0), stats(2, 100.0, visits=6)
    assert once.low < once.rate < once.high
    assert often.error < once.error


def test_more_visits_tell_the_noise_of_a_visit_and_not_only_that_of_its_parts() -> None:
    assert stats(2, 100.0, spread=0.0, noise=0.01).error == pytest.approx(0.01)
    assert stats(2, 100.0, spread=0.0, noise=0.01, visits=4).error == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("rates", "spread", "expected"),
    [
        ((120.0, 100.0), 0.01, RateOrder.FASTER),
        ((100.0, 120.0), 0.01, RateOrder.SLOWER),
        ((100.0, 100.0), 0.002, RateOrder.TIE),
        ((102.0, 100.0), 0.2, RateOrder.UNDECIDED),
    ],
)
def test_two_settings_are_apart_or_tie_or_more_has_to_be_measured(
    rates: tuple[float, float], spread: float, expected: RateOrder
) -> None:
    assert order(stats(2, rates[0], spread=spread), stats(3, rates[1], spread=spread)) is expected


def test_a_tie_goes_to_fewer_workers() -> None:
    found = [stats(0, 50.0), stats(4, 100.0, spread=0.001), stats(6, 100.4, spread=0.001)]
    assert best(found, workers(0), {}).setting == workers(4)


def test_a_difference_that_was_seen_often_is_believed_and_one_that_was_not_is_held_against_the_model() -> None:
    equal = {workers(2): 100.0, workers(4): 100.0}
    often = stats(2, 98.0, spread=0.001, noise=0.002, visits=4), stats(4, 100.0, spread=0.001, noise=0.002, visits=4)
    assert ratio(*often, equal) == pytest.approx(0.98, abs=0.001)
    assert not as_fast(*often, equal)
    vague = stats(2, 98.0, spread=0.001, noise=0.08, visits=4), stats(4, 100.0, spread=0.001, noise=0.08, visits=4)
    assert 0.98 < ratio(*vague, equal) < 1.0
    assert as_fast(*vague, equal)
    assert not as_fast(*vague, {workers(2): 95.0, workers(4): 100.0})
    assert ratio(*vague, {}) == pytest.approx(0.98, abs=0.001)


def test_one_visit_is_believed_less_than_its_parts_say() -> None:
    equal = {workers(2): 100.0, workers(4): 100.0}
    once = stats(2, 98.0, spread=0.0, noise=0.002), stats(4, 100.0, spread=0.0, noise=0.002)
    assert 0.982 < ratio(*once, equal) < 0.985


def test_what_is_not_surely_faster_leaves_the_script_as_it_is() -> None:
    own, other = stats(2, 100.0, spread=0.1, noise=0.05), stats(4, 103.0, spread=0.1, noise=0.05)
    assert best([own, other], workers(2), {}) is own


def test_what_is_cheaper_and_perhaps_as_fast_leaves_the_script_as_it_is() -> None:
    own, other = stats(8, 100.0, spread=0.1, noise=0.05), stats(2, 99.8, spread=0.1, noise=0.05)
    assert best([own, other], workers(8), {}) is own


def test_what_is_as_fast_and_cheaper_than_the_script_is_taken() -> None:
    own, other = stats(8, 100.0, spread=0.001), stats(2, 99.8, spread=0.001)
    assert best([own, other], workers(8), {}) is other


def test_one_that_is_not_surely_faster_does_not_hide_the_next_that_is() -> None:
    own = SettingStats(setting=workers(0), noise=0.01, visits=[(790, 805, 810, 795)])
    sure = SettingStats(setting=workers(4), noise=0.01, visits=[(1050, 1150, 1100, 1140)])
    vague = SettingStats(setting=workers(5), noise=0.01, visits=[(700, 5000, 5000, 700)])
    assert order(vague, own) is RateOrder.UNDECIDED
    assert best([own, vague], workers(0), {}) is own
    assert best([own, sure, vague], workers(0), {}) is sure


def test_a_cheaper_one_that_is_not_surely_faster_leaves_its_place_to_one_that_is() -> None:
    own, sure = stats(0, 100.0), stats(4, 110.0, spread=0.001)
    vague = SettingStats(setting=workers(2), noise=0.01, visits=[[90.0, 140.0] * 5])
    assert best([own, vague, sure], workers(0), {}) is sure


def test_a_machine_that_is_never_the_same_shows_in_repeated_visits() -> None:
    steady = [stats(2, 100.0, spread=0.0, visits=3), stats(4, 200.0, spread=0.0)]
    assert unsteadiness(steady) == 0
    moody = SettingStats(setting=workers(3), noise=0.005, visits=[[90.0] * 10, [110.0] * 10])
    assert unsteadiness([moody]) == pytest.approx(0.1414, rel=0.01)
    assert unsteadiness([moody, *steady]) == pytest.approx(0.1414 / 3**0.5, rel=0.01)
    assert unsteadiness([]) == 0


def test_nothing_is_gained_over_oneself() -> None:
    own = stats(2, 100.0, spread=0.2)
    assert (gain(own, own).low, gain(own, own).likely, gain(own, own).high) == (1, 1, 1)


@pytest.mark.parametrize(
    ("rate", "noise", "more", "expected"),
    [
        (100.0, 0.02, 2, True),  # which of the two is the better one is open
        (105.0, 0.01, 2, False),  # no visit will make the other one the better
        (100.0, 0.0005, 2, False),  # they are known to be as good
        (100.0, 0.01, 0, False),  # none are left
    ],
)
def test_visits_are_worth_what_they_may_turn(rate, noise, more, expected) -> None:
    one, other = (stats(n, r, spread=0.0, noise=noise, visits=2) for n, r in ((4, rate), (2, 100.0)))
    assert pays(one, other, {one.setting: rate, other.setting: 100.0}, more) is expected
