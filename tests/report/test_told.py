"""What is told of a verdict in a few flat values."""

import pytest

from gputune import ray
from gputune.html.ledgers import of_training
from gputune.report import told
from tests.test_ray import verdict


def test_ray_tells_the_same_under_its_own_name() -> None:
    assert ray.told_of is told.told_of
    assert set(told.NAMES) < set(ray.NAMES)


def test_waiting_is_the_share_of_the_loop_that_the_page_shows() -> None:
    spans = (("startup", 0.4), ("loader.wait", 0.3), ("teardown", 0.2), ("step", 0.1))
    found = verdict(ledger=[{"span": name, "seconds": 10 * share, "share": share} for name, share in spans])
    (shown,) = (row.share_of_loop for row in of_training(found) if row.name == "loader.wait")
    assert told.told_of(found)["waiting"] == pytest.approx(0.75)
    assert shown == "75.0 %"
