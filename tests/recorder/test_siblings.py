"""Watches of one job hear of each other while it goes on: each leaves what it knows, the lowest puts it together."""

from dataclasses import replace
from pathlib import Path

import pytest

from gputune.features import Features, Machine, Process, SyncRound
from gputune.features.windowing import window
from gputune.launch.job import MARK
from gputune.launch.run import WatchedRun, WatchOptions
from gputune.watching.recorder import siblings
from gputune.watching.recorder.siblings import FILE, ROUNDS, Siblings


def learnt(rank: int, rounds: int = 40, pid: int = 7) -> Features:
    """Return what the watch of one rank knows. Ranks in containers of their own often have one pid."""
    meetings = tuple(SyncRound(number=k, own=0.1 + rank, apart=0.1, ranks=2) for k in range(rounds))
    process = Process(
        pid=pid, rank=rank, world_size=2, wall=10.0, ledger={"step": 10.0}, inclusive={}, in_loop={}, loop=10.0,
        batches=rounds, samples=rounds, optimizer_steps=rounds, meetings=meetings,
    )  # fmt: skip
    return Features(command=("x",), wall=10.0, machine=Machine(cpus=8, cpus_seen=8), processes=(process,))


@pytest.fixture
def seats(tmp_path: Path) -> list[Siblings]:
    """Two watches of one job."""
    (tmp_path / MARK).write_text("torch-x")
    found = []
    for number in range(2):
        folder = tmp_path / f"rank-{number:05d}"
        folder.mkdir()
        found.append(
            Siblings(WatchedRun(WatchOptions(("x",)), folder=str(folder), rings="", troubles=[], job=str(tmp_path)))
        )
    return found


def test_the_lowest_rank_knows_them_all_and_the_others_themselves(seats: list[Siblings], tmp_path: Path) -> None:
    lowest, other = seats
    assert lowest.together(learnt(0)).processes == learnt(0).processes  # nobody else has said anything yet
    assert other.together(learnt(1)) == learnt(1)
    assert [(p.rank, len(p.meetings)) for p in lowest.together(learnt(0)).processes] == [(0, 40), (1, 40)]
    assert not (tmp_path / "rank-00000" / FILE).exists()
    assert (tmp_path / "rank-00001" / FILE).stat().st_mode & 0o777 == 0o600
    for each in seats:
        each.close()
    assert not (tmp_path / "rank-00001" / FILE).exists()


def test_what_cannot_be_read_is_not_there_yet(seats: list[Siblings], tmp_path: Path) -> None:
    (tmp_path / "rank-00001" / FILE).write_text('{"host": "m9", "features"')
    assert len(seats[0].together(learnt(0)).processes) == 1


def test_a_run_of_its_own_leaves_nothing(tmp_path: Path) -> None:
    alone = Siblings(WatchedRun(WatchOptions(("x",)), folder=str(tmp_path), rings="", troubles=[]))
    assert alone.together(learnt(0)) == learnt(0)
    assert list(tmp_path.iterdir()) == []


def test_in_a_large_job_each_leaves_what_is_compared(seats: list[Siblings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "WHOLE", 1)
    seats[1].together(learnt(1, rounds=3 * ROUNDS))
    _, heard = seats[0].together(learnt(0, rounds=3 * ROUNDS)).processes
    assert [meeting.number for meeting in heard.meetings] == list(range(2 * ROUNDS, 3 * ROUNDS))


def test_the_last_minute_keeps_ranks_of_one_pid_apart(seats: list[Siblings]) -> None:
    def heard(rounds: int) -> Features:
        seats[1].together(learnt(1, rounds))
        return seats[0].together(learnt(0, 2 * rounds))

    part = window(heard(10), replace(heard(40), wall=20.0))
    assert [(p.rank, p.batches) for p in part.processes] == [(0, 60), (1, 30)]
