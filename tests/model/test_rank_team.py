"""Ranks that wait for each other: a round ends when the last one has come and the transfer is done."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gputune.core.finding import Finding, Speedup
from gputune.features import Features, Machine, Process, SyncRound
from gputune.model.rank_team import ceiling, job, named, team
from gputune.verdict.arbitration import uncovered


def ranks(*owns: float, waits: tuple[float, ...] = (), rounds: int = 50, communication: float = 0.002) -> Features:
    """A job whose ranks take so long (s) for a round, of which they wait so long for their loaders."""
    end = max(owns) + communication
    processes = tuple(
        Process(
            pid=10 + rank, rank=rank, world_size=len(owns), wall=100.0, ledger={}, inclusive={}, loop=rounds * end,
            in_loop={"loader.wait": rounds * (waits[rank] if waits else 0.0)}, batches=rounds, samples=rounds,
            optimizer_steps=rounds,
            meetings=tuple(SyncRound(number=k, own=own, apart=end - own, ranks=len(owns)) for k in range(rounds)),
        )
        for rank, own in enumerate(owns)
    )  # fmt: skip
    return Features(command=("t",), wall=100.0, machine=Machine(cpus=8, cpus_seen=8), processes=processes)


def test_a_round_is_the_last_rank_and_the_transfer() -> None:
    told = team(ranks(0.010, 0.030, 0.020))
    assert told is not None
    assert (told.working, told.communication, told.seconds) == pytest.approx((0.030, 0.002, 0.032))
    assert told.last({1}) == 1.0
    assert told.last({0, 2}) == 0.0


def test_a_gain_is_of_rounds_that_end_earlier() -> None:
    told = team(ranks(0.010, 0.030))
    assert told is not None
    gain = told.gain(list(map(min, told.owns)))
    assert gain.likely == pytest.approx(32 / 12)
    assert gain.low < gain.likely < gain.high


def test_what_follows_once_a_rank_is_done_stays_as_it_is() -> None:
    """One of two ranks is done after half of the loop."""
    run = ranks(0.010, 0.030)
    early = replace(run.processes[0], loop=run.processes[1].loop / 2)
    told = team(replace(run, processes=(early, run.processes[1])))
    assert told is not None
    assert told.together == pytest.approx(0.5)
    assert told.gain(list(map(min, told.owns))).likely == pytest.approx(1 / (0.5 + 0.5 * 12 / 32))


def test_the_quickest_rounds_tell_what_communication_takes_while_nobody_comes_between() -> None:
    run = ranks(0.010, 0.010, rounds=40)
    delayed = tuple(
        replace(p, meetings=tuple(replace(m, apart=m.apart + 0.010 * (m.number % 3 > 0)) for m in p.meetings))
        for p in run.processes
    )
    told = team(replace(run, processes=delayed))
    assert told is not None
    assert told.undisturbed == pytest.approx(0.002)
    assert told.communication > 0.008


def test_a_rank_that_was_late_for_a_part_of_the_run_promises_nothing_for_sure() -> None:
    run = ranks(0.020, 0.020, rounds=80)

    def slowed(rank: int, late: Callable[[int], bool]) -> Features:
        theirs = [
            tuple(replace(m, own=m.own + 0.010 * (r == rank and late(m.number))) for m in p.meetings)
            for r, p in enumerate(run.processes)
        ]
        return replace(run, processes=tuple(replace(p, meetings=m) for p, m in zip(run.processes, theirs, strict=True)))

    for_a_while, always = (team(slowed(0, late)) for late in (lambda n: n < 30, lambda n: n % 8 < 3))
    assert for_a_while is not None
    assert always is not None
    first, second = (told.gain([own[1] for own in told.owns]) for told in (for_a_while, always))
    assert first.likely == pytest.approx(second.likely)
    assert first.low < 1.05 < second.low


def test_a_job_of_which_ranks_or_rounds_are_missing_is_no_team() -> None:
    whole = ranks(0.010, 0.030)
    one = Features(command=("t",), wall=1.0, machine=whole.machine, processes=whole.processes[:1])
    assert team(one) is None
    assert job(one) == ()
    assert len(job(whole)) == 2
    assert team(ranks(0.010, 0.030, rounds=10)) is None


def test_who_is_not_the_last_gains_nothing_by_coming_earlier() -> None:
    assert ceiling(ranks(0.010, 0.030, waits=(0.008, 0.0)), ("loader.wait",)) == pytest.approx(1.0)
    assert ceiling(ranks(0.010, 0.030, waits=(0.0, 0.025)), ("loader.wait",)) == pytest.approx(32 / 12)
    assert ceiling(ranks(0.030, 0.030, waits=(0.015, 0.015)), ("loader.wait",)) == pytest.approx(32 / 17)
    assert ceiling(Features(command=(), wall=0, machine=Machine(cpus=1, cpus_seen=1)), ()) == float("inf")


def test_more_workers_promise_no_more_than_the_ranks_wait_for_together() -> None:
    run = ranks(0.010, 0.030, waits=(0.0, 0.025))
    promise = Finding(
        id="few-workers", says="s", do="d", share_lost=0.8, speedup=Speedup(low=5.0, likely=6.0, high=7.0), basis="b",
        falsified_by="f", effect="same-order", evidence={"n": 1.0},
    )  # fmt: skip
    cut = uncovered(run, promise)
    assert cut.speedup.likely == pytest.approx(32 / 12)
    assert "the ranks" in cut.basis


@pytest.mark.parametrize(
    ("numbers", "words"),
    [((3,), "rank 3"), ((1, 5), "ranks 1 and 5"), ((0, 1, 2, 3), "ranks 0, 1, 2 and 3"),
     ((0, 1, 2, 3, 4), "ranks 0, 1, 2 and 2 more")],
)  # fmt: skip
def test_ranks_are_named_like_people_do(numbers: tuple[int, ...], words: str) -> None:
    one = ranks(0.01, 0.01).processes[0]
    assert named([replace(one, rank=number) for number in numbers]) == words
