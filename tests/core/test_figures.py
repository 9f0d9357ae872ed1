"""Numbers in words."""

import pytest

from gputune.core.figures import about, duration, size


@pytest.mark.parametrize(
    ("amount", "words"), [(0, "0 B"), (999, "999 B"), (4096, "4.1 kB"), (3.14e9, "3.14 GB"), (2e12, "2 TB")]
)
def test_bytes_are_said_in_words(amount: float, words: str) -> None:
    assert size(amount) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.123, "0.12 s"),
        (4.56, "4.6 s"),
        (61.23, "61.2 s"),
        (119.6, "2 min"),
        (725, "12 min 5 s"),
        (12000, "3 h 20 min"),
        (400_000, "4 days 15 h"),
    ],
)
def test_times_that_were_measured_are_said_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5.43, "5.4 s"), (42.7, "43 s"), (331.0, "5 min 30 s"), (7190.0, "2 h"), (412_000.0, "4 days 18 h")],
)
def test_times_to_come_have_two_digits(seconds: float, words: str) -> None:
    assert about(seconds) == words
