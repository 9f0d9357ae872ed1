"""Ranks replayed together: what a change brings is what it brings where they meet."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from gputune.advisors import few_workers
from gputune.core.figures import mean
from gputune.features import Device, Features, Fetch, Loader, Machine, Process, SyncRound
from gputune.model.concurrency import changed
from gputune.model.prediction import Outlook, Setting, outlooks
from gputune.model.rank_team import starved
from gputune.model.replay import LoopSeries, Work
from gputune.model.workload import device_time
from gputune.verdict.judging import judge

ROUNDS, EXCHANGE = 200, 0.002
Series = Callable[[int], float]


def ranks(makes: Sequence[Series], steps: Sequence[Series], *, every: int = 1, on_device: bool = False) -> Features:
    """A job whose ranks make batch k inline, and step, in so many s; they meet after each `every`-th step."""
    alone = [[make(k) + step(k) for k in range(ROUNDS)] for make, step in zip(makes, steps, strict=True)]
    owns = [[sum(mine[k : k + every]) for k in range(0, ROUNDS, every)] for mine in alone]
    latest = [max(own) for own in zip(*owns, strict=True)]
    whole = sum(latest) + len(latest) * EXCHANGE
    return Features(
        command=("t",),
        wall=whole,
        machine=Machine(cpus=64.0, cpus_seen=64, ranks=len(makes)),
        devices=(Device(index="0", name="Pretended", busy=1.0),) * on_device,
        processes=tuple(
            _rank(
                number,
                len(makes),
                make,
                step,
                [end - own for end, own in zip(latest, mine, strict=True)],
                whole,
                on_device,
            )
            for number, (make, step, mine) in enumerate(zip(makes, steps, owns, strict=True))
        ),
    )


def _rank(  # noqa: PLR0917 - one rank
    rank: int, size: int, make: Series, step: Series, late: Sequence[float], loop: float, on_device: bool
) -> Process:
    every = ROUNDS // len(late)
    waits = tuple(make(k) for k in range(ROUNDS))
    aparts = [apart + EXCHANGE for apart in late]
    steps = tuple(step(k) + (aparts[k // every] if k % every == every - 1 else 0.0) for k in range(ROUNDS))
    waited = [sum(waits[k : k + every]) for k in range(0, ROUNDS, every)]
    owns = [sum(waits[k : k + every]) + sum(step(j) for j in range(k, k + every)) for k in range(0, ROUNDS, every)]
    loader = Loader(
        where="a.py:1", num_workers=0, prefetch_factor=None, pin_memory=False, persistent_workers=False, batch_size=8,
        batches=ROUNDS, samples=8 * ROUNDS, waits=waits, steps=steps, wait_total=sum(waits),
        fetches=tuple(Fetch(wall=w, cpu=0.0, queued=0.0, collate=0.0, samples=8) for w in waits),
    )  # fmt: skip
    return Process(
        pid=10 + rank, rank=rank, world_size=size, wall=loop, ledger={}, inclusive={}, loop=loop, batches=ROUNDS,
        samples=8 * ROUNDS, optimizer_steps=len(late), loaders=(loader,), rounds=len(late),
        in_loop={"loader.wait": sum(waits)}, works=steps if on_device else (),
        meetings=tuple(
            SyncRound(number=k, own=own, apart=apart, waited=wait, ranks=size, on_device=on_device)
            for k, (own, apart, wait) in enumerate(zip(owns, aparts, waited, strict=True), start=1)
        ),
    )  # fmt: skip


def in_turns(late: float, usual: float = 0.001, size: int = 8) -> list[Series]:
    """Return the making of batches that take `late` s more on another rank each round."""
    return [lambda k, r=r: usual + late * (k % size == r) for r in range(size)]


@pytest.mark.parametrize("on_device", [False, True])
def test_a_loader_that_is_late_on_another_rank_each_round_is_late_for_all(on_device) -> None:
    """Of 8 ranks one is 40 ms late in a round of 100 ms: x1.67, where each of them waits for 5 % of its time."""
    run = ranks(in_turns(0.040), [lambda _: 0.057] * 8, on_device=on_device)
    (finding,) = few_workers.advise(run)
    assert finding.speedup.likely == pytest.approx(100 / 60, rel=0.05)
    assert finding.speedup.low <= 100 / 60 <= finding.speedup.high
    assert "the ranks wait 41% of their time" in finding.says


def test_what_ranks_stand_for_others_goes_with_what_they_stand_for() -> None:
    """Rounds of 100 ms, of which 60 are waits for the one whose batch is late: x2.78, not x1.70."""
    run = ranks(in_turns(0.063), [lambda _: 0.034] * 8)
    (finding,) = few_workers.advise(run)
    assert finding.speedup.likely == pytest.approx(100 / 36, rel=0.07)


def test_who_waits_for_batches_while_others_compute_keeps_nobody_waiting() -> None:
    run = ranks([lambda _: 0.030, lambda _: 0.001], [lambda _: 0.010, lambda _: 0.060])
    assert starved(run) == pytest.approx(0.001 / 0.063, abs=0.001)
    assert list(few_workers.advise(run)) == []


def test_ranks_that_meet_after_every_other_step_are_late_by_both() -> None:
    """What one rank is late in the first step of a round, another one may be in the second: the sum counts."""
    run = ranks(in_turns(0.040, size=2), [lambda _: 0.057] * 2, every=2)
    (mine,) = outlooks(run)
    assert mine.job.every == 2
    assert mine.loop(mine.now) / ROUNDS == pytest.approx(run.wall / ROUNDS, rel=0.02)
    assert mine.best_workers()[2].likely == pytest.approx((0.116 + 0.040 + 0.002) / (0.114 + 0.002), rel=0.05)


def test_the_loop_as_it_is_is_replayed_as_long_as_it_was() -> None:
    run = ranks(in_turns(0.040), [lambda k: 0.05 + 0.01 * (k % 3)] * 8)
    (mine,) = outlooks(run)
    assert mine.loop(mine.now) == pytest.approx(run.wall, rel=0.05)


def test_what_ranks_on_devices_queue_for_a_cpu_is_in_their_rounds_as_it_is() -> None:
    """Eight on two CPUs, each of which computes for 10 ms of a step: the crowd of the replay queues again."""
    run = ranks(in_turns(0.040), [lambda _: 0.057] * 8, on_device=True)
    crowded = replace(
        run,
        machine=replace(run.machine, cpus=2.0, cpus_seen=2),
        processes=tuple(replace(p, loaders=(replace(p.loaders[0], step_cpus=(0.010,) * 20),)) for p in run.processes),
    )
    (mine, *_) = outlooks(crowded)
    assert mine.loop(mine.now) == pytest.approx(run.wall, rel=0.03)


def test_waiting_for_a_rank_is_no_work_of_a_device() -> None:
    """Its clock and NVML say that it is at work; the transfer is, the wait is not."""
    run = ranks([lambda _: 0.001] * 2, [lambda _: 0.020, lambda _: 0.050], on_device=True)
    early, late = run.processes
    assert device_time(run, early, run.wall / ROUNDS) == pytest.approx(0.022)
    assert device_time(run, late, run.wall / ROUNDS) == pytest.approx(0.052)


def test_a_rank_with_two_loaders_is_replayed_alone() -> None:
    run = ranks(in_turns(0.040, size=2), [lambda _: 0.057] * 2)
    first, second = run.processes
    twice = replace(first, loaders=(*first.loaders, replace(first.loaders[0], where="a.py:9")))
    told = replace(run, processes=(twice, second))
    assert Outlook(told, second, second.loaders[0]).job.mates == ()


STEP = Work(0.0, 0.010)


def test_what_is_changed_of_one_ranks_work_is_changed_of_its_mates() -> None:
    slow = LoopSeries(fetches=(Work(0.040, 0.010),), steps=(STEP,), cpus=8.0, delivery=0.002)
    job = LoopSeries(fetches=(Work(0.020, 0.010),), steps=(STEP,), cpus=8.0, delivery=0.001, mates=(slow,))
    half = changed(job, replace(job, fetches=(Work(0.010, 0.010),), delivery=0.0005))
    assert half.mates[0].fetches[0].cpu == pytest.approx(0.020)
    assert half.mates[0].fetches[0].blocked == pytest.approx(0.010)
    assert half.mates[0].delivery == pytest.approx(0.001)
    longer = changed(job, replace(job, steps=(replace(STEP, blocked=0.015),)))
    assert longer.mates[0].steps[0].blocked == pytest.approx(0.015)


@pytest.mark.parametrize("workers", [0, 1, 4])
def test_a_step_is_over_when_the_last_rank_has_come(workers) -> None:
    quick = LoopSeries(fetches=(Work(0.0, 0.001),), steps=(STEP,), cpus=8.0, delivery=0.0)
    slow = replace(quick, steps=(Work(0.0, 0.030),))
    inline = 0.0 if workers else 0.001
    for one, other in ((quick, slow), (slow, quick)):
        met = replace(one, mates=(other,), exchange=0.005)
        assert met.seconds(workers, 2) == pytest.approx(0.035 + inline, rel=0.02)


def test_workers_go_on_while_their_rank_stands_there() -> None:
    """Its batches take 25 ms, its own steps 10: it waits for nobody where the other one needs 30."""
    feeding = LoopSeries(fetches=(Work(0.0, 0.025),), steps=(STEP,), cpus=8.0, delivery=0.0)
    slow = LoopSeries(fetches=(Work(0.0, 0.001),), steps=(Work(0.0, 0.030),), cpus=8.0, delivery=0.0)
    assert feeding.seconds(1, 2) == pytest.approx(0.025, rel=0.02)
    assert replace(feeding, mates=(slow,)).seconds(1, 2) == pytest.approx(0.030, rel=0.02)
    assert mean([replace(feeding, mates=(slow,)).epoch(1, 2, 100) / 100]) == pytest.approx(0.030, rel=0.03)


def test_many_ranks_take_no_longer_to_replay_than_a_few(monkeypatch) -> None:
    run = ranks(in_turns(0.040, size=32), [lambda _: 0.057] * 32)
    (mine,) = outlooks(run)
    assert len(mine.job.mates) == 31
    assert mine.loop(Setting(0, 2, persistent=False)) == pytest.approx(run.wall, rel=0.05)


def test_one_rank_whose_batches_are_late_on_the_device_is_named_and_not_its_workers() -> None:
    """DDP over NCCL, measured: for 21.7 ms of a round rank 1 waits for a batch, and rank 0 for it; x2.66."""
    run = ranks([lambda _: 0.0002, lambda _: 0.0217], [lambda _: 0.0131] * 2, on_device=True)
    (first, *_) = judge(run)
    assert first.id == "straggling-rank"
    assert "rank 1 needs 34.8 ms a step, the others 13.3 ms" in first.says
    assert "the difference is input" in first.says
    assert first.speedup.likely == pytest.approx(36.8 / 15.3, rel=0.02)
