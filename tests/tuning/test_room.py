"""What is left of memory and /dev/shm, and when that is too little."""

import pytest

from gputune.core.sample import Metric, Sample
from gputune.tuning.room import Headroom


def room(**readings: float) -> Headroom:
    made = Headroom()
    for name, value in readings.items():
        made.take(Sample(Metric(name.replace("_", "."), "B", ""), 0, value))
    return made


def test_what_is_not_known_is_not_short() -> None:
    assert room().short() == ""
    assert room(memory_available=1.0).short() == ""
    assert room(memory_total=100.0, memory_available=50.0, shm_total=10.0, shm_free=9.0).short() == ""


@pytest.mark.parametrize(
    ("readings", "says"),
    [
        ({"memory_total": 100e9, "memory_available": 1e9}, "only 1 GB of memory are left"),
        ({"memory_limit": 10e9, "memory_limited": 9.9e9}, "only 100 MB of its control group's memory are left"),
        ({"shm_total": 64e6, "shm_free": 0.0}, "only 0 B of /dev/shm are left"),
    ],
)
def test_the_last_of_it_is_short(readings: dict[str, float], says: str) -> None:
    assert room(**readings).short() == says
