"""How large a data set is: what its samples read, and no more than its files have."""

import math
import random
from types import SimpleNamespace

import pytest

from gputune.features import Variety
from gputune.model import storage

GB = 10**9
WANTED = SimpleNamespace(asked=60e6 * 4, samples=4)  # each sample reads 60 MB


def size(variety: Variety | None, samples: int = 42_000) -> float | None:
    return storage.data_set(SimpleNamespace(samples_in_dataset=samples, variety=variety), WANTED)


def test_samples_that_have_a_file_each_are_added_up() -> None:
    assert size(None) == size(Variety(looked=64, files=64, size=64 * 60e6)) == pytest.approx(2.52e12)


def test_samples_out_of_ten_files_are_no_more_than_these() -> None:
    assert size(Variety(looked=128, files=10, size=0.6 * GB)) == pytest.approx(0.6 * GB, rel=0.1)


def test_what_is_held_open_is_no_more_than_it_has() -> None:
    assert size(Variety(held=0.6 * GB)) == 0.6 * GB


def test_what_is_read_of_a_part_of_its_files_is_less_than_they_have() -> None:
    assert size(Variety(held=50 * GB), samples=10) == 600e6


def test_without_a_length_it_is_not_known() -> None:
    assert size(Variety(held=1.0), samples=0) is None


@pytest.mark.parametrize("files", [5, 100, 3000])
@pytest.mark.parametrize("looked", [64, 512, 4096])
def test_as_many_files_as_there_surely_are_no_more_of(files: int, looked: int) -> None:
    """Of a hundred tries hardly any says fewer than there are, and many openings tell how many there are."""
    chance = random.Random(7)
    said = []
    for _ in range(100):
        met = {chance.randrange(files) for _ in range(looked)}
        said.append(storage._many(looked, len(met)))
    assert sum(many < 0.99 * files for many in said) <= 5
    if looked >= 10 * files:
        assert max(said) < 2 * files
    if looked < files**0.5:
        assert min(said) == math.inf
