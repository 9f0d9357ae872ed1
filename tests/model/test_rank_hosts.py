"""A round of ranks on devices becomes no shorter than what the host of a late one has to do in it."""

from dataclasses import replace

import pytest

from gputune.advisors import straggling_rank
from gputune.features import Features, Fetch, Loader, Machine, Process, SyncRound
from gputune.model.rank_hosts import least_round
from gputune.model.rank_team import team

ROUNDS, OWNS, APART = 50, (0.00122, 0.06311), 0.00145  # s
HOST = 0.0030  # s of the late rank's thread, of which it computes
CPU, WORKER_CPU = 0.0028, 0.00135


def job(*, cpus: float = 8.0, here: int = 2, on_device: bool = True) -> Features:
    """A job as one was measured on a simulated card: two ranks, one of which waits for a batch for most of a round."""
    end = max(OWNS) + APART
    loader = Loader(
        where="train.py:24", dataset="D", batch_size=32, num_workers=1, prefetch_factor=2, pin_memory=True,
        persistent_workers=False, iterable=False, in_order=True, training=True, batches=ROUNDS, samples=32 * ROUNDS,
        wait_total=0.0,
        fetches=(Fetch(wall=0.063, cpu=WORKER_CPU, queued=0.0, collate=0.0, samples=32),),
    )  # fmt: skip
    processes = tuple(
        Process(
            pid=10 + rank, rank=rank, world_size=2, wall=5.0, ledger={}, inclusive={}, loop=ROUNDS * end,
            in_loop={"loader.wait": ROUNDS * (end - HOST)} if rank else {"launch.wait": ROUNDS * 0.053},
            batches=ROUNDS, samples=32 * ROUNDS, optimizer_steps=ROUNDS, loaders=(loader,),
            cpu=CPU / end if rank else 0.99,  # the other one spins
            meetings=tuple(
                SyncRound(number=k, own=own, apart=end - own, ranks=2, on_device=on_device) for k in range(ROUNDS)
            ),
        )
        for rank, own in enumerate(OWNS)
    )  # fmt: skip
    machine = Machine(cpus=cpus, cpus_seen=8, ranks=here)
    return Features(command=("t",), wall=5.0, machine=machine, processes=processes)


@pytest.mark.parametrize(
    ("cpus", "here", "least"),
    [
        (8.0, 2, HOST),
        (2.0, 2, CPU + WORKER_CPU),  # a CPU each
        (2.0, 1, HOST),  # the other rank is on another machine
    ],
)
def test_a_round_is_no_shorter_than_what_hosts_do_in_it(cpus: float, here: int, least: float) -> None:
    run = job(cpus=cpus, here=here)
    ranks = team(run)
    assert ranks is not None
    assert least_round(run, ranks, (1,)) == pytest.approx(least)
    (finding,) = straggling_rank.advise(run)
    assert finding.speedup.likely == pytest.approx((OWNS[1] + APART) / least, rel=0.01)  # not x24, as devices tell it


def test_a_late_rank_that_spins_for_nobody_is_the_one_that_is_looked_at() -> None:
    run = job(cpus=2.0)
    spinning = replace(run, processes=(replace(run.processes[0], cpu=0.1), run.processes[1]))
    assert [f.speedup for f in straggling_rank.advise(spinning)] == [f.speedup for f in straggling_rank.advise(run)]


def test_where_hosts_tell_the_rounds_these_hold_all_that_a_host_does() -> None:
    run = job(on_device=False)
    ranks = team(run)
    assert ranks is not None
    assert least_round(run, ranks, (1,)) == 0
