"""Readings after the last batch wait for the next one; however many there are, all that time counts."""

import pytest

from gputune.gathering import host


def test_readings_beyond_the_bound_stand_for_each_other(story, monkeypatch) -> None:
    """A long evaluation of many devices: half of the time at 0.2, then half of it at 0.8."""
    monkeypatch.setattr(host, "PENDING", 64)
    story.iterator()
    story.batch()
    began = story.at
    for k in range(2000):
        story.at = began + 100 * (k + 1)
        story.sample("cpu.busy", 0.2 if k < 1000 else 0.8)
        story.sample("cpu.job", 1.0)
    story.batch()
    assert len(story.gatherer.host._pending) == 0
    machine = story.features().machine
    assert machine.busy == pytest.approx(0.5, abs=0.02)
    assert machine.job == pytest.approx(1.0)


def test_no_more_than_the_bound_are_kept_and_the_newest_is(story, monkeypatch) -> None:
    monkeypatch.setattr(host, "PENDING", 64)
    story.iterator()
    story.batch()
    for k in range(1000):
        story.at += 100
        story.sample("cpu.busy", k)
        assert len(story.gatherer.host._pending) <= 64
    story.batch()
    assert story.gatherer.host.last("cpu.busy") == 999
