"""How a machine went: one axis for all curves, minutes finely and a day coarsely, and gaps with their length."""

import pytest

from gputune.core.sample import Metric, Reading, Sample
from gputune.core.units import NS
from gputune.feeds.past import ROLE_CPU, SPANS, Curves, by_role
from gputune.feeds.rows import Curve, Past, TaskRow

BUSY = Metric("gpu.busy", "ratio", "", per="gpu")
TOTAL = Metric("memory.total", "B", "")
LEFT = Metric("memory.available", "B", "")
READ = Metric("disk.read", "B", "", "counter", per="disk")
START = 1_800_000_000  # Unix time
CLOCKS = START * NS


def tick(at: float, *, busy: float = 0.5, read: float = 0.0) -> list[Reading]:
    """Return what is read at s `at`."""
    t = round(at * NS)
    return [
        Sample(BUSY, t, busy, "0"), Sample(TOTAL, t, 100.0), Sample(LEFT, t, 30.0),
        Sample(READ, t, read, "sda"), Sample(READ, t, 2 * read, "sdb"),
    ]  # fmt: skip


def curve(past: Past, what: str, whom: str = "") -> Curve:
    """Return one of the curves."""
    return next(each for each in past.curves if (each.what, each.whom) == (what, whom))


def test_all_curves_lie_on_one_axis_of_time() -> None:
    curves = Curves()
    for second in range(10):
        curves.take(tick(second, read=1000.0 * second), CLOCKS)
    past = curves.past("m8", 0)
    assert (past.node, past.began, past.step) == ("m8", START, 1.0)
    assert curve(past, "busy", "0").values == (0.5,) * 9
    assert curve(past, "host memory").values == (70.0,) * 9
    assert curve(past, "host memory").top == 100.0
    assert curve(past, "disk read").values == (None, *(3000.0,) * 8)  # of both disks
    assert len({len(each.values) for each in past.curves}) == 1


def test_an_hour_is_seen_coarsely_and_its_last_minutes_finely() -> None:
    curves = Curves()
    for second in range(3600):
        curves.take(tick(second, busy=second % 2), CLOCKS)
    fine, hours, day = (curves.past("m8", span) for span in range(len(SPANS)))
    assert len(curve(fine, "busy", "0").values) == SPANS[0][1] - 1
    assert fine.began == START + 3600 - SPANS[0][1]
    assert hours.began == START
    assert set(curve(hours, "busy", "0").values) == {0.5}
    assert len(curve(day, "busy", "0").values) == 14


def test_a_time_when_nothing_could_be_read_is_a_gap_with_its_length() -> None:
    curves = Curves()
    for second in (*range(5), *range(65, 70)):
        curves.take(tick(second, read=1000.0 * second), CLOCKS)
    past = curves.past("m8", 0)
    assert past.gaps == ((START + 4, 61.0),)
    assert curve(past, "busy", "0").values[5:65] == (None,) * 60
    assert curve(past, "disk read").values[65] is None  # the mean over the gap is no pace of now
    for second in range(70, 70 + SPANS[0][1]):
        curves.take(tick(second), CLOCKS)
    assert curves.past("m8", 0).gaps == ()  # it lies before them
    assert len(curves.past("m8", 1).gaps) == 1


def test_weeks_take_no_more_room_than_a_day() -> None:
    curves = Curves()
    for hour in range(24 * 30):
        curves.take(tick(3600.0 * hour), CLOCKS)
    for span, (_, most) in enumerate(SPANS):
        assert len(curve(curves.past("m8", span), "busy", "0").values) == most - 1


@pytest.mark.parametrize("roles", [[], ["main"], ["main", "worker", "worker"]])
def test_cpus_are_told_by_role_where_there_is_a_run(roles: list[str]) -> None:
    tasks = [TaskRow(pid=k, name="x", role=role, run="m8/run", cpu=0.5) for k, role in enumerate(roles)]
    tasks.append(TaskRow(pid=99, name="x", role="foreign", cpu=2.0))
    wanted = {role: 0.5 * roles.count(role) for role in roles}
    told = [reading for reading in by_role(tasks, NS) if isinstance(reading, Sample)]
    assert {each.instance: each.value for each in told} == wanted
    assert {each.metric for each in told} <= {ROLE_CPU}


def test_what_is_read_seldom_stands_until_the_next_reading_but_not_for_ever() -> None:
    curves, heat = Curves(), Metric("gpu.temperature", "degC", "", per="gpu")
    for second in range(40):
        curves.take(tick(second) + ([Sample(heat, second * NS, 60.0, "0")] if second in {0, 5, 10} else []), CLOCKS)
    values = curve(curves.past("m8", 0), "temperature", "0").values
    assert values == (60.0,) * 21 + (None,) * 18
