"""What is told of a verdict in a few flat values."""

from gputune import ray
from gputune.report import told


def test_ray_tells_the_same_under_its_own_name() -> None:
    assert ray.told_of is told.told_of
    assert set(told.NAMES) < set(ray.NAMES)
