"""serialized-workers speaks where holding the workers up did not make their batches later, else few-workers does."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gputune.advisors.serialized_workers import advise
from gputune.core.finding import Finding
from gputune.features import Doing, Features, Slope
from gputune.model.prediction import outlooks
from gputune.model.turns import GROUPS, SETS, expected
from gputune.verdict.judging import judge
from tests.guest.conftest import GUEST

LINE = Slope(value=0.05, error=0.06, count=12, delay=0.010)
# a batch takes each of four workers 20 ms, 15 of which it waits for the others; the loop gets one every 5 ms
WAITS = {"num_workers": 4, "blocked": 0.020, "step": 0.001, "waits": (0.004,), "cpus": 8}


def held_up(run: Features, slope: Slope | None) -> Features:
    (process,) = run.processes
    loaders = tuple(replace(loader, slope=slope) for loader in process.loaders)
    return replace(run, processes=(replace(process, loaders=loaders),))


def test_workers_in_line_are_told_and_more_of_them_are_not_advised(run) -> None:
    (finding,) = judge(held_up(run(**WAITS), LINE))
    assert finding.id == "serialized-workers"
    assert finding.change == {}
    assert "4 workers make batches in turn: held up 12 times for 10 ms, they were 0.5 ms late" in finding.says
    assert finding.evidence["slope"] == 0.05
    assert finding.speedup.likely == pytest.approx(5 / 2.2, rel=0.1)  # a step, and handing over what takes 5 ms to make
    assert finding.speedup.low == pytest.approx(5 / (0.6 * 5), rel=0.2)


def test_where_they_stand_is_told_as_stacks_have_it(run) -> None:
    told = held_up(run(**WAITS), LINE)
    stands = Doing(kind="own", what="Cache.__getitem__", where="data.py:33", share=0.8)
    (process,) = told.processes
    (finding,) = advise(replace(told, processes=(replace(process, making=(stands,), making_stacks=90),)))
    assert "; 80% of making one is at data.py:33;" in finding.says
    less = replace(process, making=(replace(stands, share=0.4),), making_stacks=90)
    (finding,) = advise(replace(told, processes=(less,)))
    assert "data.py" not in finding.says


@pytest.mark.parametrize(
    "slope",
    [
        None,
        Slope(value=1.02, error=0.1, count=12, delay=0.010),
        replace(LINE, count=2),
        replace(LINE, error=0.4),
        replace(LINE, value=0.6),
    ],
    ids=["never", "by-themselves", "too-few", "unsure", "between"],
)
def test_where_that_does_not_show_more_workers_are_the_advice(run, slope: Slope | None) -> None:
    (finding,) = judge(held_up(run(**WAITS), slope))
    assert finding.id == "few-workers"


def test_workers_that_take_turns_at_the_cpus_stand_in_no_other_line(run) -> None:
    """The replay has such a slope as well: eight workers that compute on two CPUs."""
    fetches = [(0.008 + 0.0005 * (n * 7 % 9), 0.0) for n in range(90)]
    crowd = run(num_workers=8, fetches=fetches, queued=0.030, step=0.001, waits=(0.004,), cpus=2)
    (outlook,) = outlooks(crowd)
    assert expected(outlook, 0.010) < SETS / 2
    assert list(advise(held_up(crowd, LINE))) == []


def test_the_replay_has_a_slope_of_one_for_workers_that_set_the_pace(run) -> None:
    (outlook,) = outlooks(run(**WAITS))
    assert expected(outlook, 0.010) == pytest.approx(1, abs=0.2)


def test_ranks_that_wait_for_each_other_tell_nothing_by_it(run) -> None:
    ranks = run(**WAITS, ranks=2)
    processes = tuple(replace(p, loaders=tuple(replace(x, slope=LINE) for x in p.loaders)) for p in ranks.processes)
    assert list(advise(replace(ranks, processes=processes))) == []


def test_is_silent_where_nobody_waits(run) -> None:
    assert judge(held_up(run(num_workers=4, blocked=0.020, step=0.010), LINE)) == []


def test_the_replay_holds_as_many_up_at_once_as_the_guest_does() -> None:
    text = (GUEST / "gputune_guest" / "delaying.py").read_text()
    assert f"\nGROUPS = {GROUPS}  #" in text


def in_company(run: Features, waits: Callable[[int], float], numbers: tuple[int, ...] = (4, 4, 4, 3, 2)) -> Features:
    """Return a run whose batches waited so many s each while so many were made, as one after the other."""
    (process,) = run.processes
    (loader,) = process.loaders
    many = [numbers[place % len(numbers)] for place in range(len(loader.fetches))]
    fetches = tuple(replace(f, wall=waits(n)) for f, n in zip(loader.fetches, many, strict=True))
    other = replace(loader, fetches=fetches, in_flight=tuple(map(float, many)), ahead=tuple(many))
    return replace(run, processes=(replace(process, loaders=(other,)),))


def test_a_line_is_told_by_how_long_it_takes_with_fewer_in_it(run) -> None:
    (finding,) = judge(in_company(run(**WAITS), lambda n: 0.006 * n))
    assert finding.id == "serialized-workers"
    assert finding.change == {}
    assert "a batch waits 20.4 ms as one of 3.4 that are made, and 6 ms by itself" in finding.says
    assert finding.evidence["shared"] == pytest.approx(1)


def test_workers_whose_waiting_does_not_grow_are_too_few(run) -> None:
    (finding,) = judge(in_company(run(**WAITS), lambda n: 0.020 + 0.0001 * (n % 2)))
    assert finding.id == "few-workers"


def test_what_workers_wait_beside_their_work_is_no_line(run) -> None:
    busy = run(num_workers=2, fetches=[(0.020, 0.0)] * 200, step=0.001, waits=(0.009,), cpus=8)
    assert [f.id for f in judge(in_company(busy, lambda n: 0.020 + 0.001 * n, (2, 2, 2, 1)))] == ["few-workers"]


def test_a_control_group_whose_time_is_used_up_is_no_line(run) -> None:
    waits = in_company(run(**WAITS), lambda n: 0.006 * n)
    full = replace(waits, machine=replace(waits.machine, job=0.95 * waits.machine.cpus))
    assert list(advise(full)) == []


def test_where_nobody_can_tell_more_workers_are_worth_a_try_and_no_more(run) -> None:
    unsure = in_company(run(**WAITS), lambda n: 0.020, (4,))
    perhaps: list[Finding] = []
    assert judge(unsure, perhaps=perhaps) == []
    assert [finding.id for finding in perhaps] == ["few-workers"]
    apart = Slope(value=1.0, error=0.1, count=12, delay=0.010)
    (finding,) = judge(held_up(unsure, apart))  # it was tried
    assert finding.id == "few-workers"
