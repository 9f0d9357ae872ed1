"""What the options of `watch` may say."""

import pytest

from gputune.launch import values


@pytest.mark.parametrize(("text", "share"), [("70", 0.7), ("70%", 0.7), ("0.5", 0.005), (" 100 ", 1.0)])
def test_a_percentage_is_a_share(text, share) -> None:
    assert values.share(text) == pytest.approx(share)


@pytest.mark.parametrize(("text", "share"), [("0.3%", 0.003), ("0", 0), ("3 %", 0.03)])
def test_what_may_be_held_back_is_a_small_share(text, share) -> None:
    assert values.perturbing(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "-1", "3.1", "nan", "x", "%"])
def test_what_is_none_is_none(text) -> None:
    assert values.perturbing(text) is None


@pytest.mark.parametrize("text", ["", "0", "-1", "100.1", "nan", "inf", "x", "7 0", "%"])
def test_what_is_no_percentage_is_none(text) -> None:
    assert values.share(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("1.5m", 90), ("2min", 120), ("1h", 3600), (" 5s ", 5)]
)
def test_a_time_is_in_seconds(text, seconds) -> None:
    assert values.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "0", "0.5s", "-3", "nan", "3 days", "3x", "1e400", "m5"])
def test_what_is_no_time_is_none(text) -> None:
    assert values.seconds(text) is None


@pytest.mark.parametrize(("text", "seconds"), [("starving", 60), ("starving:5", 5), ("starving:2m", 120)])
def test_starving_takes_its_seconds(text, seconds) -> None:
    assert values.starving(text) == seconds


@pytest.mark.parametrize("text", ["", "starving:", "starving:0", "Starving", "starved:5", "starving 5"])
def test_what_is_no_condition_is_none(text) -> None:
    assert values.starving(text) is None


@pytest.mark.parametrize(("text", "price"), [("2.50", 2.5), ("0", 0), ("1e3", 1000)])
def test_a_price_is_a_number(text, price) -> None:
    assert values.price(text) == price


@pytest.mark.parametrize("text", ["", "free", "-1", "nan", "inf", "2,50", "$2"])
def test_what_is_no_price_is_none(text) -> None:
    assert values.price(text) is None
