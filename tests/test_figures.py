"""Numbers in words."""

import pytest

from gputune.figures import size


@pytest.mark.parametrize(
    ("amount", "words"), [(0, "0 B"), (999, "999 B"), (4096, "4.1 kB"), (3.14e9, "3.14 GB"), (2e12, "2 TB")]
)
def test_bytes_are_said_in_words(amount: float, words: str) -> None:
    assert size(amount) == words
