"""uneven-shards speaks when ranks get different amounts of data and wait for each other."""

from dataclasses import replace

import pytest

from gputune.advisors.uneven_shards import advise
from gputune.core.finding import NO_CHANGE
from gputune.features import Epoch, Features, Loader


@pytest.fixture
def shared(job):
    """The builder of jobs whose ranks get so many batches, and keep step until the first is done.

    The last one goes on at the pace `alone`.
    """

    def build(*batches: int, pace: float = 0.010, alone: float = 0.010) -> Features:
        least = min(batches)
        seconds = [least * pace + (count - least) * alone for count in batches]
        run = job(*[pace] * len(batches), batches=batches, loops=seconds)
        passes = [
            Epoch(began=1.0, start=0.0, first_wait=0.0, shutdown=0.0, batches=count, seconds=took, complete=True)
            for count, took in zip(batches, seconds, strict=True)
        ]
        loaders = [
            Loader(where="train.py:9", num_workers=0, prefetch_factor=None, pin_memory=False, persistent_workers=False,
                   batch_size=32, batches=one.batches, epochs=(one,))
            for one in passes
        ]  # fmt: skip
        processes = tuple(replace(p, loaders=(lo,)) for p, lo in zip(run.processes, loaders, strict=True))
        return replace(run, processes=processes)

    return build


def test_is_silent_about_equal_shares(shared) -> None:
    assert list(advise(shared(100, 100))) == []


def test_a_last_batch_more_is_nothing(shared) -> None:
    assert list(advise(shared(101, 100, 100))) == []


def test_says_who_has_most_and_what_equal_shares_bring(shared) -> None:
    (finding,) = advise(shared(400, 200))
    assert "rank 0 got 12,800 samples, rank 1 6,400" in finding.says
    assert finding.speedup.likely == pytest.approx(400 / 300)
    assert finding.evidence["most_batches"] == 400


def test_a_rank_that_goes_on_alone_may_be_faster(shared) -> None:
    (finding,) = advise(shared(400, 200, pace=0.010, alone=0.006))
    assert finding.speedup.likely == pytest.approx(3.2 / 3.0)
    assert finding.speedup.low < finding.speedup.likely


def test_is_silent_where_passes_say_more_than_the_loop_or_nothing(shared) -> None:
    run = shared(1000, 100, 100, 100)
    twice = tuple(replace(p, loaders=p.loaders * 4, loop=p.loop / 4) for p in run.processes)
    assert list(advise(replace(run, processes=twice))) == []
    window = tuple(replace(p, loop=0.6 * p.loop) for p in shared(440, 400).processes)
    assert list(advise(replace(run, processes=window))) == []  # of a pass that is not over
    run = shared(1000, 500)
    latest = tuple(replace(p, loaders=run.processes[0].loaders) for p in run.processes)
    assert list(advise(replace(run, processes=latest))) == []


def test_what_the_first_batches_cost_more_is_paid_once(shared) -> None:
    """Both work for 3 s on 200 batches, of which all but the first ones take 10 ms; then one goes on alone."""
    run = shared(400, 200, pace=0.015, alone=0.010)
    steady = tuple(
        replace(p, loaders=tuple(replace(lo, waits=(0.001,) * 100, steps=(0.009,) * 100) for lo in p.loaders))
        for p in run.processes
    )
    (finding,) = advise(replace(run, processes=steady))
    assert finding.speedup.likely == pytest.approx(5.0 / 4.0)


def test_batches_of_different_size_count_by_their_samples(job) -> None:
    run = job(0.010, 0.020, samples=(3200, 6400), in_loop=[{"collective": 1.1}, {"collective": 0.1}])
    (finding,) = advise(run)
    assert finding.speedup.likely == pytest.approx(2.1 / 1.6, rel=0.01)


def test_is_silent_where_a_rank_was_not_seen(shared, without) -> None:
    assert list(advise(without(shared(400, 200, 200), 1))) == []


def test_processes_that_are_no_job_are_not_compared(shared) -> None:
    run = shared(400, 200)
    alone = tuple(replace(p, world_size=None) for p in run.processes)
    assert list(advise(replace(run, processes=alone))) == []


def test_a_batch_costs_something_by_itself_as_well(job) -> None:
    """Ranks of 8 and 24 samples a batch: 6 ms each, and half a millisecond a sample."""
    (finding,) = advise(job(0.010, 0.018, samples=(800, 2400)))
    assert finding.speedup.likely == pytest.approx(19 / 15)
    assert finding.speedup.low == pytest.approx(19 / 15 * 0.95)


def test_with_equal_shares_a_round_still_ends_with_the_last_rank(job) -> None:
    """Now and then each rank takes 4 ms longer, by turns: with 16 ms on average there is always one that takes 18."""
    often = [[mine + 0.004 * (k % 2 == r) for k in range(100)] for r, mine in enumerate((0.008, 0.020))]
    (finding,) = advise(job(*often, samples=(3200, 6400)))
    assert finding.speedup.likely == pytest.approx(23 / 19, rel=0.01)


def test_more_samples_that_cost_less_are_no_cause(job) -> None:
    assert list(advise(job(0.018, 0.010, samples=(800, 2400)))) == []


def test_ranks_that_were_not_seen_to_meet_are_compared_over_the_loop(job) -> None:
    run = job(0.010, 0.020, samples=(3200, 6400), in_loop=[{"collective": 1.1}, {"collective": 0.1}])
    (finding,) = advise(replace(run, processes=tuple(replace(p, meetings=()) for p in run.processes)))
    assert finding.speedup.likely == pytest.approx(2.1 / 1.6, rel=0.01)


def test_beside_strangers_it_says_what_each_rank_got_and_promises_nothing(shared) -> None:
    run = shared(300, 150, pace=0.018, alone=0.0106)
    (finding,) = advise(run)
    assert finding.speedup.low < 1.05 < finding.speedup.likely
    (crowded,) = advise(replace(run, machine=replace(run.machine, others=0.9)))
    assert "rank 0 got 9,600 samples, rank 1 4,800" in crowded.says
    assert crowded.speedup == NO_CHANGE
    assert crowded.risk.startswith("others use 0.9 of the 8 CPUs")


def test_beside_strangers_a_gain_that_is_sure_is_told_and_one_that_is_not_likely_is_not(shared) -> None:
    sure, small = shared(400, 200), shared(212, 188, pace=0.018, alone=0.0106)
    found = [next(advise(replace(run, machine=replace(run.machine, others=0.9)))) for run in (sure, small)]
    assert not any(finding.risk for finding in found)
    assert found[0].speedup.low > 1.05 > found[1].speedup.likely
