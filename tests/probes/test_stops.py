"""The stop probe: a training that somebody stopped is told apart from one that waits."""

import pytest

from gputune.probes import stops


@pytest.fixture
def looks(machine, clock):
    """Return a function that turns the clock, ticks, and gives what was noted, as (what, pid, s)."""
    clock.of("gputune.probes.stops")
    machine.process(100, "other")
    machine.process(101, "main", parent=100)
    ticks = stops.attach(machine.target())
    next(ticks)

    def look(seconds: float = 0.2, **facts: object) -> list[tuple[str, int, float]]:
        if facts:
            machine.process(101, "main", parent=100, **facts)
        clock.turn(seconds)
        return [(str(n.fields["n"]), n.fields["pid"], n.fields["t"] / 1e9) for n in next(ticks)]

    return look


def test_one_that_waits_is_not_stopped(looks) -> None:
    assert looks(state="S") == looks(state="D") == looks(state="t") == looks(1.9, state="R") == []


def test_a_stop_is_told_with_its_beginning_and_its_end(looks, clock) -> None:
    began = clock.seconds
    assert looks(state="T") == [("stopped", 101, pytest.approx(began + 0.1))]
    assert looks(30.0) == []
    assert looks(state="R") == [("continued", 101, pytest.approx(began + 30.3))]
    assert looks() == []


def test_one_that_is_killed_while_it_is_stopped_has_no_stop_without_an_end(looks, machine, clock) -> None:
    looks(state="T")
    machine.end(101)
    (ended,) = looks()
    assert ended == ("continued", 101, pytest.approx(clock.seconds))


def test_time_in_which_neither_of_us_ran_is_a_stop(looks, clock) -> None:
    began = clock.seconds
    assert looks(5.0, cpu=3) == []  # we were late; it ran
    assert looks(5.0) == [("stopped", 101, pytest.approx(began + 5)), ("continued", 101, pytest.approx(began + 10))]


def test_before_anybody_trains_it_is_the_command_that_counts(machine, clock) -> None:
    clock.of("gputune.probes.stops")
    machine.process(100, "other", state="T")
    ticks = stops.attach(machine.target(100))
    assert [n.fields["pid"] for n in next(ticks)] == [100]


def test_a_command_that_is_not_there_yet_is_waited_for(machine, clock) -> None:
    clock.of("gputune.probes.stops")
    assert next(stops.attach(machine.target(100))) == []
