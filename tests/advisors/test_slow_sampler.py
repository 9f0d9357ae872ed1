"""slow-sampler speaks when saying which samples come next takes a good part of the loop."""

from dataclasses import replace

import pytest

from gputune.advisors.slow_sampler import advise
from gputune.verdict.judging import judge


def sampled(plain, *each: float):
    """The same loop with a batch sampler that takes so many s for each batch in turn, within the waits."""
    (process,) = plain.processes
    (loader,) = process.loaders
    picks = (each * len(loader.waits))[: len(loader.waits)]
    waits = tuple(wait + pick for wait, pick in zip(loader.waits, picks, strict=True))
    more = sum(each) / len(each) * loader.batches
    loader = replace(loader, waits=waits, picks=picks, wait_total=loader.wait_total + more)
    ledger = {**process.ledger, "loader.wait": process.ledger["loader.wait"] + more}
    spans = {"ledger": ledger, "in_loop": ledger, "inclusive": ledger}
    loop = process.loop + more
    return replace(plain, processes=(replace(process, loaders=(loader,), loop=loop, wall=loop + 1, **spans),))


@pytest.fixture
def ordinary(run):
    """Workers that are never late, and a step of 10 ms."""
    return run(num_workers=2, cpu=0.002, waits=(0.0003,), step=0.010, step_cpu=0.010, deliveries=(0.0003,) * 100)


def test_is_silent_of_a_sampler_that_was_never_slow(ordinary) -> None:
    assert list(advise(ordinary)) == []


def test_is_silent_of_one_that_takes_little(ordinary) -> None:
    assert list(advise(sampled(ordinary, 0.0004))) == []


def test_is_silent_of_one_that_sorts_now_and_then(ordinary) -> None:
    """A pool of a hundred batches sorted at once, in 30 ms."""
    assert list(advise(sampled(ordinary, 0.030, *(0.0,) * 99))) == []


def test_names_what_it_takes_and_what_it_would_bring(ordinary) -> None:
    (finding,) = advise(sampled(ordinary, 0.020))
    assert finding.id == "slow-sampler"
    assert "20 ms a batch" in finding.says
    assert finding.speedup.likely == pytest.approx(3.0, rel=0.1)
    assert finding.speedup.low == pytest.approx(1.5, rel=0.1)
    assert finding.evidence["sampler_s"] == pytest.approx(0.020)
    assert finding.where == "train.py:41"


def test_without_workers_it_is_the_sampler_and_not_the_making_of_batches(run) -> None:
    plain = run(num_workers=0, cpu=0.002, step=0.010, step_cpu=0.010, cpus=2.0)
    (finding,) = judge(sampled(plain, 0.020))
    assert finding.id == "slow-sampler"
    assert finding.speedup.likely == pytest.approx(32 / 12, rel=0.1)


def test_it_promises_no_more_than_the_workers_can_make(run) -> None:
    slow = run(num_workers=1, cpu=0.028, waits=(0.0003,), step=0.010, step_cpu=0.010, deliveries=(0.0003,) * 100)
    (finding,) = advise(sampled(slow, 0.020))
    assert finding.speedup.likely < 1.2


def test_nothing_else_claims_its_seconds(ordinary) -> None:
    (finding,) = judge(sampled(ordinary, 0.020))
    assert finding.id == "slow-sampler"


def passes(plain, *picking: float):
    """The same loop in passes of 20 batches, with a sampler that works so long at the start of each."""
    (process,) = plain.processes
    (loader,) = process.loaders
    (epoch,) = loader.epochs[:1]
    each = tuple(replace(epoch, batches=20, picking=seconds) for seconds in picking)
    loop = process.loop + sum(picking[1:])
    return replace(plain, processes=(replace(process, loaders=(replace(loader, epochs=each),), loop=loop),))


def test_work_at_the_start_of_each_pass_is_told_by_its_own_name(ordinary) -> None:
    loop = ordinary.processes[0].loop
    (finding,) = advise(passes(ordinary, 9.0, *(loop / 6,) * 3))  # the first one comes before the loop
    assert (finding.id, finding.evidence["passes"]) == ("slow-sampler", 3)
    assert f"{loop / 6:.2g} s before there is a batch, 33% of the loop" in finding.says
    assert finding.speedup.likely == pytest.approx(1.5)
    assert finding.speedup.low < 1.2
    assert finding.effect == "changes-order"


def test_one_pass_that_began_late_is_none_of_each(ordinary) -> None:
    loop = ordinary.processes[0].loop
    assert list(advise(passes(ordinary, 0.0, loop / 3))) == []
    assert list(advise(passes(ordinary, 0.0, loop / 3, 0.001, 0.001))) == []
