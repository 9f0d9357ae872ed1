"""What several watches have learnt becomes one run."""

from dataclasses import replace

import pytest

from gputune.features import Device, Features, Machine, Process, SyncRound
from gputune.features.joined_ranks import WatchShare, decode, encode, joined


def part(rank: int, *, host: str = "a", cpus: float = 8, others: float = 1.0, exit_code: int = 0) -> WatchShare:
    """One rank that uses one core, on a machine of eight."""
    process = Process(
        pid=100 + rank, rank=rank, wall=10.0 + rank, ledger={"step": 10.0}, inclusive={}, loop=9.0,
        batches=90, samples=900, optimizer_steps=90, meetings=(SyncRound(number=1, own=0.1, apart=0.01),),
    )  # fmt: skip
    sibling = 101 if rank == 0 else 100
    device = Device(index="0", name="Card", others={sibling: 0.5, 9: 0.1})
    machine = Machine(cpus=cpus, cpus_seen=8, job=1.0, others=others)
    features = Features(
        command=("train",), wall=10.0 + rank, machine=machine, processes=(process,), devices=(device,),
        exit_code=exit_code, unavailable={"nvml": "none"}, dropped=1,
    )  # fmt: skip
    return WatchShare(host=host, features=features)


def test_a_part_survives_its_file() -> None:
    assert decode(encode(part(0))) == part(0)


def test_ranks_stand_in_their_order() -> None:
    run = joined([part(1), part(0)])
    assert [p.rank for p in run.processes] == [0, 1]
    assert run.wall == 11.0
    assert run.dropped == 2
    assert {p.host for p in run.processes} == {""}


def test_siblings_are_no_strangers() -> None:
    run = joined([part(0), part(1)])
    assert run.machine.others == 0.0
    assert run.machine.job == 2.0
    assert run.machine.ranks == 2
    assert [d.others for d in run.devices] == [{9: 0.1}]


def test_cpus_that_each_rank_has_for_itself_add_up() -> None:
    assert joined([part(0, cpus=2), part(1, cpus=2)]).machine.cpus == 4
    assert joined([part(0, cpus=8), part(1, cpus=8)]).machine.cpus == 8


def test_ranks_on_other_machines_share_no_cpu_with_the_first() -> None:
    run = joined([part(0), part(1, host="b")])
    assert run.machine.others == 1.0
    assert run.machine.ranks == 1
    assert [p.host for p in run.processes] == ["a", "b"]
    assert len(run.devices) == 2


def test_the_job_failed_where_a_rank_did() -> None:
    assert joined([part(0), part(1, exit_code=7)]).exit_code == 7
    assert joined([part(0), part(1)]).exit_code == 0


def test_a_rank_that_trained_nothing_is_no_rank() -> None:
    idle = part(1)
    run = joined([part(0), replace(idle, features=replace(idle.features, processes=()))])
    assert len(run.processes) == 1
    assert run.machine.ranks == 1
    assert run.machine.job == pytest.approx(2.0)
