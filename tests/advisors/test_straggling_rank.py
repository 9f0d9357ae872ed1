"""straggling-rank speaks when the same rank is late at most steps."""

from dataclasses import replace

import pytest

from gputune.advisors.straggling_rank import advise
from gputune.features import Device


def test_is_silent_about_ranks_that_keep_step(job) -> None:
    (finding,) = list(advise(job(0.0101, 0.010))) or [None]
    assert finding is None or finding.speedup.low < 1.05


def test_is_silent_about_jitter(job) -> None:
    turns = [[0.030 if k % 2 == r else 0.010 for k in range(100)] for r in range(2)]
    assert list(advise(job(*turns))) == []


def test_ranks_that_are_late_by_much_in_a_few_rounds_are_no_stragglers(job) -> None:
    """In two of a hundred rounds three of four, and the other in none: each is the last of all now and then."""
    turns = [[0.050 if k % 50 == r else 0.010 for k in range(100)] for r in range(4)]
    assert list(advise(job(*turns[:3], 0.010))) == []
    assert list(advise(job(turns[0], 0.010))) == []


def test_says_who_and_by_how_much(job) -> None:
    (finding,) = advise(job(0.010, 0.010, 0.025, 0.010, communication=0.005))
    assert "rank 2 needs 25 ms a step, the others 10 ms" in finding.says
    assert finding.evidence["rank"] == 2
    assert finding.speedup.likely == pytest.approx(30 / 15, rel=0.01)
    assert finding.evidence["communication_s"] == pytest.approx(0.005)


def test_a_rank_that_is_late_no_more_varies_as_the_others_do(job) -> None:
    """In turns 10 and 14 ms, and not in the same rounds: one of two is always at 14."""
    turns = [0.014 if k % 2 else 0.010 for k in range(100)]
    (finding,) = advise(job(turns, 0.025))
    assert finding.speedup.likely == pytest.approx(26 / 15, rel=0.01)


def test_at_the_most_the_exchange_is_as_quick_as_in_the_quickest_rounds(job) -> None:
    """In half of the rounds of 25 ms it takes 1 ms, in the others 9."""
    run = job(0.010, 0.025)
    slept = [
        replace(p, meetings=tuple(replace(m, apart=m.apart + 0.008 * (m.number % 2)) for m in p.meetings))
        for p in run.processes
    ]
    (finding,) = advise(replace(run, processes=tuple(slept)))
    assert finding.speedup.likely == pytest.approx(30 / 15, rel=0.01)
    assert finding.speedup.high == pytest.approx(30 / 11, rel=0.01)


def test_several_ranks_may_be_late_together(job) -> None:
    (finding,) = advise(job(0.010, 0.020, 0.010, 0.021))
    assert finding.says.startswith("ranks 1 and 3 need")
    assert finding.speedup.likely == pytest.approx(22 / 11, rel=0.01)


def test_input_is_told_from_computing(job) -> None:
    in_loop = [{"loader.wait": 0.1}, {"loader.wait": 1.6}]
    (finding,) = advise(job(0.010, 0.025, in_loop=in_loop))
    assert "the difference is input" in finding.says
    (finding,) = advise(job(0.010, 0.025))
    assert "the difference is computing" in finding.says


def test_a_slow_device_is_named(job) -> None:
    """On the devices' clocks all steps take as long: those of the others hold the wait for the late one."""
    works = ((0.0255,) * 10, (0.0255,) * 10)
    (finding,) = advise(job(0.010, 0.025, works=works))
    assert "the difference is device (15 ms)" in finding.says


@pytest.mark.parametrize(
    ("clocks", "do"),
    [
        ((1.98e9, 1.98e9), "only this rank has its device do"),
        ((1.98e9, 0.90e9), "look at that device's clocks"),
        ((1.98e9, None), "look at that device's clocks"),
        ((1.98e9,), "look at that device's clocks"),  # the other one is in another machine
    ],
)
def test_a_device_with_the_clock_of_the_others_has_more_to_do(job, clocks, do) -> None:
    """Of DDP on two cards, measured: one rank's probes keep its device busy for 16.2 ms more."""
    run = job(0.01319, 0.02943, communication=0.00023, works=((0.0296,) * 10, (0.0296,) * 10))
    cards = tuple(Device(index=str(n), name="A", busy=1.0, clock=clock) for n, clock in enumerate(clocks))
    (finding,) = advise(replace(run, devices=cards))
    assert "rank 1 needs 29.4 ms a step, the others 13.2 ms" in finding.says
    assert "the difference is device (16.2 ms)" in finding.says
    assert do in finding.do
    assert finding.speedup.low < 29.63 / 13.41 < finding.speedup.high  # x2.2 was realised


def test_a_host_that_lets_its_device_idle_is_no_slow_device(job) -> None:
    run = job(0.010, 0.025, works=((0.0255,) * 10, (0.0255,) * 10))
    cards = tuple(Device(index=str(n), name="A", busy=busy) for n, busy in enumerate((0.4, 1.0)))
    (finding,) = advise(replace(run, devices=cards))
    assert "the difference is computing" in finding.says


def test_a_checkpoint_in_which_the_devices_clock_runs_on_is_no_slow_device(job) -> None:
    works = ((0.0255,) * 10, (0.0255,) * 10)
    assert list(advise(job(0.010, 0.025, in_loop=[{}, {"checkpoint": 1.4}], works=works))) == []


@pytest.mark.parametrize(
    ("clocks", "what"),
    [
        ((1.98e9, 1.98e9, 0.80e9), "device"),
        ((0.80e9, 1.98e9, 1.98e9), "device"),  # devices may have been named in another order
        ((0.80e9, 0.80e9, 1.98e9), "computing"),  # one rank is late, and two devices are slow
        ((1.98e9, 1.80e9, 1.98e9), "computing"),  # by 9 %, and the rank by more than a half
        ((1.98e9, 1.98e9, None), "computing"),
    ],
)
def test_where_no_device_was_timed_clocks_tell_a_slow_one(job, clocks, what) -> None:
    cards = tuple(Device(index=str(n), name="A", clock=clock) for n, clock in enumerate(clocks))
    (finding,) = advise(replace(job(0.010, 0.010, 0.025), devices=cards))
    assert f"the difference is {what}" in finding.says


def test_checkpoints_of_one_rank_have_an_advisor_of_their_own(job) -> None:
    assert list(advise(job(0.010, 0.025, in_loop=[{}, {"checkpoint": 1.4}]))) == []


def test_more_samples_are_for_uneven_shards(job) -> None:
    assert list(advise(job(0.010, 0.020, samples=(3200, 6400)))) == []


def test_a_crowded_machine_is_no_slow_rank(job) -> None:
    assert list(advise(job(0.010, 0.025, queued=(0.001, 0.014)))) == []


def test_a_late_input_on_a_crowded_machine_is_told_with_less_certainty(job) -> None:
    in_loop = [{"loader.wait": 0.1}, {"loader.wait": 1.0}]
    (alone,) = advise(job(0.010, 0.025, in_loop=in_loop))
    (crowded,) = advise(job(0.010, 0.025, in_loop=in_loop, queued=(0.001, 0.009)))
    assert "the difference is input" in crowded.says
    assert crowded.speedup.low < alone.speedup.low
    assert crowded.speedup.likely == alone.speedup.likely


def test_is_silent_where_a_rank_was_not_seen(job, without) -> None:
    assert list(advise(without(job(0.010, 0.010, 0.025), 1))) == []


def test_is_silent_after_few_rounds(job) -> None:
    assert list(advise(job([0.010] * 19, [0.025] * 19))) == []


def test_where_ranks_share_their_cpus_the_others_may_queue_longer_once_nobody_waits(job) -> None:
    run = job(0.010, 0.025, queued=(0.003, 0.003), in_loop=[{"loader.wait": 0.1}, {"loader.wait": 1.6}])
    machines = [replace(run.machine, cpus=cpus, job=1.2) for cpus in (16.0, 2.0)]
    (roomy,), (tight,) = (advise(replace(run, machine=machine)) for machine in machines)
    assert roomy.speedup.likely == pytest.approx(26 / 11, rel=0.01)
    assert roomy.speedup.sure == pytest.approx(roomy.speedup.low, rel=0.001)
    assert 1.0 < tight.speedup.sure <= tight.speedup.likely < 0.8 * roomy.speedup.likely
    assert 0.95 <= tight.speedup.low < 0.9 * tight.speedup.sure


def test_a_line_at_the_cpus_grows_as_all_of_them_are_taken_more_often(job) -> None:
    """The same work in a shorter round uses four CPUs by so much more: who queued for 1 ms queues as much longer."""
    run = job(0.010, 0.025, queued=(0.001, 0.001), in_loop=[{"loader.wait": 0.1}, {"loader.wait": 1.6}])
    (finding,) = advise(replace(run, machine=replace(run.machine, cpus=4.0, job=2.4)))
    after = 0.026 / finding.speedup.likely
    assert after - 0.011 == pytest.approx(0.001 * ((0.026 / after) ** 4 - 1), rel=0.01)
    assert after > 0.012


def test_a_rank_that_computes_less_leaves_the_others_a_cpu(job) -> None:
    run = job(0.010, 0.025, queued=(0.003, 0.003))
    (waits,), (computes,) = (
        advise(replace(run, machine=replace(run.machine, cpus=2.0, job=1.2), processes=processes))
        for processes in (_waiting(run), run.processes)
    )
    assert waits.speedup.low < computes.speedup.low


def _waiting(run):
    """Return the ranks, of which the second is late because it waits for its batches."""
    first, second = run.processes
    return (first, replace(second, in_loop={"loader.wait": 1.6}))


def test_a_rank_whose_pace_varies_by_as_much_as_it_is_late_may_only_have_a_slower_core(job) -> None:
    paces = [0.0105 if k // 20 % 2 else 0.0145 for k in range(200)]
    run = job([0.010] * 200, paces)
    assert all(finding.speedup.low < 1.05 for finding in advise(run))
    first, second = run.processes
    doing = replace(second, after_step=(0.002,) * 200)  # something that the other does not do at all
    (finding,) = advise(replace(run, processes=(first, doing)))
    assert finding.speedup.low > 1.05


@pytest.mark.parametrize(
    ("backward", "sure"),
    [
        ((0.005, 0.005), True),  # only a part of its step is longer: no slow core does that
        ((0.005, 0.00625), False),  # by as much as its steps are
        ((0.005, 0.0), False),  # of one of them nobody knows
    ],
)
def test_a_rank_that_is_as_quick_in_the_backward_pass_has_no_slower_core(job, backward, sure) -> None:
    run = job([0.010] * 200, [0.0105 if k // 20 % 2 else 0.0145 for k in range(200)])
    timed = tuple(
        replace(p, meetings=tuple(replace(m, backward=each) for m in p.meetings))
        for p, each in zip(run.processes, backward, strict=True)
    )
    (finding,) = advise(replace(run, processes=timed))
    assert (finding.speedup.low > 1.05) == sure


def test_a_late_rank_that_goes_on_alone_is_quicker_then_as_well(job) -> None:
    """The others are done after half of the loop; what it needs 25 ms for takes 10."""
    run = job(0.010, 0.025)
    first, second = run.processes
    (finding,) = advise(replace(run, processes=(replace(first, loop=second.loop / 2), second)))
    assert finding.speedup.likely == pytest.approx(1 / (0.5 * 11 / 26 + 0.5 / 2.5), rel=0.01)


def test_a_rank_that_sleeps_leaves_no_cpu_free(job) -> None:
    run = job(0.002, 0.022, queued=(0.0001, 0.0001))
    (finding,) = advise(replace(run, machine=replace(run.machine, cpus=1.5, job=0.2)))
    assert finding.speedup.likely == pytest.approx(23 / 3, rel=0.05)
