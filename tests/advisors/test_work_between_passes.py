"""work-between-passes speaks where every pass is followed by as much of something else."""

from dataclasses import replace

from gputune.advisors.work_between_passes import advise
from gputune.features import Features, Interpreted, Place
from gputune.verdict.judging import judge

LINE = Interpreted(where="train.py:83", function="main", share=0.9, calls="get_loader")


def passing(plain: Features, gaps: tuple[float, ...], lines=(LINE,), **differs) -> Features:
    """Add gaps to a run whose loop is 8 s of steps: they make it longer."""
    (process,) = plain.processes
    total = sum(gaps)
    process = replace(
        process, between=gaps, outside=tuple(lines), loop=process.loop + total, wall=process.wall + total,
        ledger={**process.ledger, "between": total}, in_loop={**process.in_loop, "between": total}, **differs,
    )  # fmt: skip
    return replace(plain, processes=(process,))


def test_is_silent_of_passes_that_follow_each_other(run) -> None:
    assert list(advise(run())) == []
    assert list(advise(passing(run(), (0.01,) * 10))) == []


def test_says_how_long_and_where(run) -> None:
    plain = run()
    loop = plain.processes[0].loop
    (finding,) = judge(passing(plain, (loop / 10,) * 5))
    assert finding.id == "work-between-passes"
    assert "33% of the loop, mostly at train.py:83 (get_loader)" in finding.says
    assert finding.where == "train.py:83"
    assert finding.speedup.low < 1.25
    assert 1.4 < finding.speedup.likely < 1.6


def test_without_stacks_nothing_is_sure(run) -> None:
    plain = run()
    (finding,) = advise(passing(plain, (plain.processes[0].loop / 10,) * 5, lines=()))
    assert finding.speedup.low < 1
    assert "mostly" not in finding.says


def test_one_long_pause_is_nothing_that_comes_with_each_pass(run) -> None:
    plain = run()
    loop = plain.processes[0].loop
    assert list(advise(passing(plain, (0.001, 0.001, loop / 2, 0.001, 0.001)))) == []
    assert list(advise(passing(plain, (loop / 4, loop / 8)))) == []


def test_two_pauses_alike_are(run) -> None:
    plain = run()
    (finding,) = advise(passing(plain, (plain.processes[0].loop / 8, plain.processes[0].loop / 9)))
    assert "mostly at train.py:83" in finding.says


def test_is_silent_where_a_model_makes_what_the_next_pass_is_over(run) -> None:
    plain = run()
    acts = Place(span="evaluation", where="ppo.py:8", what="evaluation", count=5, seconds=0.1, feeds=5)
    assert list(advise(passing(plain, (plain.processes[0].loop / 10,) * 5, places=(acts,)))) == []
