"""Numbers in words, by table: what is not known is never 0."""

import math

import pytest

from gputune.tui import words

CASES = [
    (words.percent, [(None, "–"), (math.nan, "–"), (0.0, "0%"), (0.001, "<1%"), (0.414, "41%"), (1e9, "9999%")]),
    (words.size, [(None, "–"), (0, "0B"), (512, "512B"), (2048, "2.00k"), (61.2 * 2**30, "61.2G")]),
    (words.flow, [(None, "–"), (0, "0B/s"), (1.2e9, "1.20GB/s"), (3e6, "3.00MB/s"), (999.9e6, "1.00GB/s")]),
    (words.pace, [(None, "–"), (0.0, "0"), (0.123, "0.12"), (8.12, "8.12"), (85.5, "85.5"), (812.4, "812")]),
    (words.pace, [ (12_300, "12,300"), (999.7, "1,000"), (10_930.2, "10,930"), (1.2e6, "1.20M")]),
    (words.watts, [(None, "–"), (420.4, "420W"), (12_345.0, "12.3kW"), (3.2e6, "3.20MW")]),
    (words.degrees, [(None, "–"), (61.0, "61°C"), (math.inf, "–")]),
    (words.hertz, [(None, "–"), (1.98e9, "1.98GHz")]),
    (words.cores, [(None, "–"), (8.0, "8"), (12.5, "12.5"), (0.25, "0.2")]),
    (words.clock, [(None, "–"), (5.9, "0:05"), (751.0, "12:31"), (12_005.0, "3:20:05"), (-3.0, "0:00")]),
    (words.lasted, [(None, "–"), (0.085, "85ms"), (3.2, "3.2s"), (90.0, "90.0s"), (720.0, "12min"), (11_160, "3.1h")]),
    (words.times, [(None, "–"), (1.1, "×1.10"), (2.24, "×2.2"), (12.0, "×12"), (1e12, "×9999")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("say", "value", "said"), [(say, value, said) for say, cases in CASES for value, said in cases]
)
def test_numbers_are_said_in_words(say, value: float | None, said: str) -> None:
    assert say(value) == said


@pytest.mark.parametrize("value", [1e300, -1e300, math.nan, math.inf, -math.inf, 10**400])
@pytest.mark.parametrize("say", [say for say, _ in CASES])
def test_no_number_is_too_much(say, value: float) -> None:
    try:
        value = float(value)
    except OverflowError:
        value = math.inf
    assert len(say(value)) < 24


def test_an_interval_has_the_digits_of_its_middle() -> None:
    assert words.interval(1.9, 2.2, 2.3) == "×2.2 (1.9–2.3)"
    assert words.interval(1.05, 1.1, 1.15) == "×1.10 (1.05–1.15)"
    assert words.interval(1.1, 15.0, 100.0, at_least=True) == "at least ×1.10"
