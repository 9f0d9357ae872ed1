"""Readings after the last batch wait for the next one; however many there are, all that time counts."""

import pytest

from gputune.gathering import host


def test_readings_beyond_the_bound_stand_for_each_other(story, monkeypatch) -> None:
    """A long evaluation: half of the time at 0.2, then half of it at 0.8, and a metric that is read once in it."""
    monkeypatch.setattr(host, "PENDING", 64)
    story.iterator()
    story.batch()
    began = story.at
    story.sample("memory.total", 7.0, at=began + 1)
    for k in range(20_000):
        story.at = began + 1000 * (k + 1)
        story.sample("cpu.busy", 0.2 if k < 10_000 else 0.8)
        story.sample("cpu.job", 1.0)
        assert len(story.gatherer.host._pending) <= 64
    story.batch()
    assert story.gatherer.host._pending == []
    machine = story.features().machine
    assert machine.busy == pytest.approx(0.5, abs=0.05)
    assert machine.job == pytest.approx(1.0)
    assert story.gatherer.host.last("memory.total") == 7.0


def test_after_the_next_batch_each_reading_counts_again(story, monkeypatch) -> None:
    monkeypatch.setattr(host, "PENDING", 8)
    story.iterator()
    story.batch()
    for k in range(100):
        story.at += 100
        story.sample("cpu.busy", k)
    story.batch()
    story.at += 100
    story.sample("cpu.busy", 500.0)
    story.batch()
    assert story.gatherer.host.last("cpu.busy") == 500.0
    story.at += 100
    story.sample("cpu.busy", 600.0)
    story.batch()
    assert story.gatherer.host.last("cpu.busy") == 600.0
