"""Batch sizes grow to the knee of samples/s, and no further."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from gputune.experiment.budget import Budget
from gputune.experiment.starting import Cause, Start, State
from gputune.features import Allocator, Device, Features, Machine, OutOfMemory, Process
from gputune.sweep.batches import AUTO, SizeNotSet, Sizes
from gputune.sweep.settings import setting

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
        run = SimpleNamespace(processes=(process,), devices=(), machine=machine, out_of_memory=())
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
    with pytest.raises(SizeNotSet, match="dataset or a sampler"):
        tried(saturating, script=own)
    why = "batch_size: its batch sampler decides: Buckets"
    with pytest.raises(SizeNotSet, match="Buckets"):
        tried(lambda _: Start(state=State.FAILED, cause=Cause.SIZE_NOT_SET, log="", why=why))


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


GB = 10**9


def on_card(size: int, *, cached: int = 0) -> Start:
    """A start on a card of 80 GB: 2 GB of weights, 1 GB a sample, a context of 1 GB, and `cached` B kept for later."""
    peak = 2 * GB + size * GB
    pool = Allocator(index="0", live=None, last=2 * GB, least=2 * GB, peak=peak, reserved=peak + cached)
    process = Process(
        pid=1, rank=None, wall=9.0, ledger={}, inclusive={}, loop=9.0, batches=25, samples=25, optimizer_steps=25,
        allocators=(pool,),
    )  # fmt: skip
    device = Device(index="0", name="x", memory_used=GB + peak + cached, memory_total=80 * GB)
    machine = Machine(cpus=2.0, cpus_seen=2)
    run = Features(command=("x",), wall=9.0, machine=machine, processes=(process,), devices=(device,))
    if peak + GB > 80 * GB:
        return Start(state=State.OOM, log="", why="it ran out of memory", run=run)
    return Start(state=State.OK, log="", rates=(float(size),) * 10, run=run)


OF_24 = replace(OWN, batch_size=24)
LIKE = {"outlook": SimpleNamespace(process=SimpleNamespace(batches=25, optimizer_steps=25))}


def test_what_is_only_cached_fills_no_card() -> None:
    found = tried(lambda size: on_card(size, cached=(76 - size) * GB), [16, 32], **LIKE)
    assert [(size.filled.needed, size.fits) for size in found.tried] == [(19 * GB, True), (35 * GB, True)]


def test_where_memory_ends_the_growing_the_largest_that_fits_is_tried_by_what_smaller_ones_took() -> None:
    found = tried(on_card, script=OF_24, **LIKE)
    assert numbers(found) == [24, 48, 96, 64]  # 69 would be nine tenths, and 64 is the next number of eights
    assert [found.tried[n].state for n in (2, 3)] == [State.OOM, State.OK]
    assert found.tried[3].filled.needed == 67 * GB
    assert found.candidates()[0] == 64
    assert numbers(tried(on_card, **LIKE)) == [16, 32, 64, 128]  # 64 fit already


def test_the_largest_is_not_tried_where_the_last_one_bought_nothing() -> None:
    def flat(size: int) -> Start:
        start = on_card(size)
        return start if start.state is State.OOM else Start(state=State.OK, log="", rates=(100.0,) * 10, run=start.run)

    assert numbers(tried(flat, script=OF_24, **LIKE)) == [24, 48]


def test_through_one_size_alone_a_line_goes_by_what_was_there_before_its_first_step() -> None:
    assert numbers(tried(on_card, script=replace(OF_24, batch_size=48), **LIKE)) == [48, 96, 64]


def test_a_loop_that_goes_on_where_memory_runs_out_says_whose_memory() -> None:
    def caught(size: int) -> Start:
        start = on_card(16)
        assert start.run is not None
        process = replace(start.run.processes[0], optimizer_steps=25 if size == 16 else 0)
        gone = OutOfMemory(
            gpu="0", index="0", pid=1, rank=None, where="train.py:3", asked=4 * GB, live=70 * GB, reserved=70 * GB,
            free=GB, total=80 * GB, times=25, went_on=True,
        )  # fmt: skip
        run = replace(start.run, processes=(process,), out_of_memory=() if size == 16 else (gone,))
        return replace(start, run=run)

    found = tried(caught, **LIKE).tried[-1]
    assert found.state is State.OOM
    assert "it goes on where memory runs out (4 GB more of GPU 0, where tensors held 70 GB of its 80 GB)" in found.why
