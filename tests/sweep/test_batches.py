"""Batch sizes grow to the knee of samples/s, and no further."""

from types import SimpleNamespace

import pytest

from gputune.features import Features, Machine
from gputune.sweep.batches import AUTO, NotOurs, Sizes
from gputune.sweep.budget import Budget
from gputune.sweep.settings import setting
from gputune.sweep.starting import Start, State

OWN = setting(0, 2, pin_memory=False, persistent=False, batch_size=16)


def profile(**differs):
    """A script with batches of 16 out of a million samples, 20 ms each."""
    loader = SimpleNamespace(where="train.py:9", samples_in_dataset=10**6)
    return SimpleNamespace(**{"script": OWN, "loader": loader, "ranks": 1, "per_batch": 0.02, **differs})


class Starter:
    """Starts that give the rate that `world` says of a batch size, or fail as it says."""

    def __init__(self, world):
        self.world = world

    def plan(self, *, seconds: float):
        return seconds

    at_once = 1

    def judge(self):
        return None

    def start(self, plan, name, wanted, *, judge, spread, replay):
        assert (replay, spread) == (True, True)
        found = self.world(wanted.batch_size)
        if isinstance(found, Start):
            return found
        return Start(state=State.OK, log="", rates=(found,) * 10)


def tried(world, asked=AUTO, *, budget=None, **differs) -> Sizes:
    journal = SimpleNamespace(start=lambda _name, make: make(), knows=lambda _name: False)
    found = Sizes(profile(**differs), Starter(world), journal, budget or Budget(), lambda _: None)
    found.run(asked)
    return found


def saturating(size: int) -> float:
    """8 ms a step whatever the batch, 0.1 ms a sample."""
    return size / (0.008 + 0.0001 * size)


def numbers(found: Sizes) -> list[int]:
    return [size.setting.batch_size for size in found.tried]


def test_it_stops_where_twice_the_batch_buys_next_to_nothing() -> None:
    found = tried(saturating)
    assert numbers(found) == [16, 32, 64, 128, 256, 512, 1024]
    assert found.candidates()[:2] == [1024, 512]


def test_the_smallest_size_at_the_knee_is_taken_and_not_the_largest() -> None:
    found = tried(saturating, [16, 512, 1024, 2048])
    assert found.candidates() == [1024, 512, 16]


def test_a_size_that_runs_out_of_memory_is_a_row_and_the_end_of_growing() -> None:
    oom = Start(state=State.OOM, log="", why="it ran out of memory")
    found = tried(lambda size: oom if size > 40 else saturating(size))
    assert [(s.setting.batch_size, s.state) for s in found.tried][-1] == (64, State.OOM)
    assert found.candidates() == [32, 16]
    found = tried(lambda size: oom if size == 32 else saturating(size), [16, 32, 64])
    assert found.candidates() == [64, 16]


def test_a_size_whose_batches_are_skipped_is_none() -> None:
    """A loop that catches errors of memory and goes on with the next batch is fast, and learns nothing."""

    def caught(size: int) -> Start:
        process = SimpleNamespace(batches=40, optimizer_steps=1 if size > 32 else 20)  # own: two batches a step
        machine = SimpleNamespace(memory_total=None, memory_limit=None)
        run = SimpleNamespace(processes=(process,), devices=(), machine=machine)
        return Start(state=State.OK, log="", rates=(1000.0 * size,) * 10, run=run)  # type: ignore[arg-type] # stand-in

    own = SimpleNamespace(process=SimpleNamespace(batches=300, optimizer_steps=150))
    found = tried(caught, outlook=own)
    assert [(s.setting.batch_size, s.state) for s in found.tried] == [
        (16, State.OK), (32, State.OK), (64, State.FAILED)
    ]  # fmt: skip
    assert "1 steps in 40 batches" in found.tried[-1].why
    assert found.candidates() == [32, 16]
    few = SimpleNamespace(process=SimpleNamespace(batches=300, optimizer_steps=20))
    assert tried(caught, outlook=few).candidates()[0] > 32  # four steps were to be seen: nobody can tell


def test_it_does_not_grow_beyond_what_the_data_set_has() -> None:
    loader = SimpleNamespace(where="train.py:9", samples_in_dataset=300)
    assert numbers(tried(saturating, loader=loader)) == [16, 32, 64]


def test_where_everything_fails_the_script_s_own_size_stays() -> None:
    found = tried(lambda _: Start(state=State.FAILED, log="", why="it broke"))
    assert (numbers(found), found.candidates()) == ([16], [])


def test_a_size_that_cannot_be_set_is_said() -> None:
    own = setting(0, 2, pin_memory=False, persistent=False)
    with pytest.raises(NotOurs, match="dataset or a sampler"):
        tried(saturating, script=own)
    with pytest.raises(NotOurs, match="Buckets"):
        tried(lambda _: Start(state=State.FAILED, log="", why="batch_size: its batch sampler decides: Buckets"))


class SideBySide(Starter):
    """Three may run at once, as on the nodes of a cluster."""

    at_once = 3


def side_by_side(world, asked=AUTO, **differs) -> Sizes:
    journal = SimpleNamespace(start=lambda _name, make: make(), knows=lambda _name: False)
    found = Sizes(profile(**differs), SideBySide(world), journal, Budget(), lambda _: None)
    found.run(asked)
    return found


def test_side_by_side_the_same_is_chosen_and_rows_keep_their_order() -> None:
    found = side_by_side(saturating)
    assert numbers(found)[:7] == [16, 32, 64, 128, 256, 512, 1024]
    assert found.candidates()[:2] == tried(saturating).candidates()[:2]
    assert numbers(side_by_side(saturating, [64, 16, 32])) == [64, 16, 32]


def test_side_by_side_nothing_new_is_begun_once_it_does_not_pay() -> None:
    assert len(numbers(side_by_side(lambda size: 100.0))) <= 4  # of seven: two to see it, two under way


def test_a_trial_that_was_given_up_is_a_row_that_says_so() -> None:
    slow = Start(state=State.OK, log="", rates=(1.0,) * 8, why="given up after 1.0 of 3.0 s: far behind the best")
    found = tried(lambda size: slow if size == 16 else saturating(size), [256, 16])
    assert found.tried[1].why.startswith("given up")
    assert found.candidates()[0] == 256


def test_a_batch_of_more_samples_than_there_are_is_not_tried() -> None:
    found = tried(saturating, asked=[32, 2_000_000])
    assert [(size.rate is None, size.why) for size in found.tried] == [
        (False, ""), (True, "there are 1,000,000 samples, no batch can have more"),
    ]  # fmt: skip


def test_the_first_size_that_there_is_no_time_for_is_remembered() -> None:
    left = iter([60.0, 1.0])
    found = tried(saturating, budget=SimpleNamespace(allows=lambda seconds: seconds <= next(left)))
    assert (numbers(found), found.left_out) == ([16], 32)


@pytest.mark.parametrize(
    "machine",
    [{"memory_total": 100, "memory_least": 5}, {"memory_limit": 100, "memory_limited_most": 95}],
)
def test_a_size_that_all_but_fills_the_host_s_memory_is_no_choice(machine) -> None:
    def world(size: int) -> Start:
        told = Features(command=("train.py",), wall=1.0, machine=Machine(cpus=2.0, cpus_seen=2, **machine))
        return Start(state=State.OK, log="", rates=(saturating(size),) * 10, run=told)

    found = tried(world)

    assert numbers(found) == [16, 32]  # the script's own runs there anyway; the next one is the last that is looked at
    assert not found.tried[1].fits
    assert found.candidates() == [16]
