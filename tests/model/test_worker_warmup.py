"""What the youth of workers costs is told apart from the loop that they serve."""

from dataclasses import replace

import pytest

from gputune.core.figures import mean
from gputune.features import Epoch, Features, Fetch, Loader, Machine, Process
from gputune.model.prediction import Outlook, Setting
from gputune.model.worker_warmup import lost, settled, youth

WORKERS, BATCHES = 2, 24
CPU, SLOW = 0.002, 0.009  # s of making a batch, of a grown worker and of a young one
STEP, COPYING = 0.010, 0.030  # s of a step, and of one of the first five after a start


def loader(*, passes: int = 5, batches: int = BATCHES, **differs: object) -> Loader:
    """Passes that each start two workers: the first two batches of each worker and the first five rounds are slow."""
    epoch = Epoch(began=0, start=0.04, first_wait=0.02, shutdown=0.01, batches=batches, seconds=0.4, complete=True)
    ages = tuple(range(1, batches)) * passes
    made = [Fetch(wall=w, cpu=w, queued=0, collate=0, samples=8, worker=0, age=a) for w, a in _made(batches)]
    found = Loader(
        where="train.py:1",
        num_workers=WORKERS,
        prefetch_factor=2,
        pin_memory=False,
        persistent_workers=False,
        batch_size=8,
        batches=batches * passes,
        ages=ages,
        waits=tuple(0.001 for _ in ages),
        steps=tuple(COPYING if age < 6 else STEP for age in ages),
        fetches=tuple(made * passes * WORKERS),
        epochs=(epoch,) * passes,
        seconds=passes * 0.4,
        step_queued=0.004,
    )
    return replace(found, **differs)


def _made(batches: int) -> list[tuple[float, int]]:
    return [(SLOW if age < 2 else CPU, age) for age in range(batches // WORKERS)]


def test_batches_and_rounds_near_a_start_are_left_out() -> None:
    found = settled(loader())
    assert {f.cpu for f in found.fetches} == {CPU}
    assert set(found.steps) == {STEP}
    assert len(found.steps) == len(found.waits)


def test_what_the_whole_loop_queued_is_shared_out_to_the_rounds_that_stay() -> None:
    assert settled(loader()).step_queued == pytest.approx(0.004 * 0.011 * BATCHES / 0.4)


def test_a_start_costs_what_its_first_rounds_take_longer() -> None:
    assert lost(loader()) == pytest.approx(5 * (COPYING - STEP))


def test_of_a_short_pass_the_end_is_grown() -> None:
    assert youth(loader(batches=8)) == 6
    assert lost(loader(passes=12, batches=8)) == pytest.approx(5 * (COPYING - STEP))


@pytest.mark.parametrize("differs", [{"passes": 2}, {"num_workers": 0}, {"persistent_workers": True}, {"ages": ()}])
def test_without_starts_again_and_again_no_round_is_young(differs) -> None:
    found = loader(**differs)
    assert replace(settled(found), fetches=()) == replace(found, fetches=())
    assert lost(found) is None


def test_batches_that_workers_make_before_any_was_taken_are_not_like_the_others() -> None:
    assert {f.cpu for f in settled(loader(passes=2)).fetches} == {CPU}
    alone = loader(num_workers=0)
    assert settled(alone) is alone


def test_cpu_times_of_steps_are_those_of_the_rounds_that_stay() -> None:
    young, found = (mean(kept.steps) for kept in (loader(), settled(loader())))
    assert settled(loader(step_cpus=(young,) * 20)).step_cpus == pytest.approx((found,) * 20)


def test_pauses_of_some_rounds_make_no_cpu_times_longer() -> None:
    """A pause of half a second at the end of each pass, in constant steps."""
    steps = tuple(STEP for _ in loader().steps)
    pauses = tuple(0.5 if age == BATCHES - 1 else 0.0 for age in loader().ages)
    whole = tuple(map(sum, zip(steps, pauses, strict=True)))
    found = settled(loader(steps=whole, pauses={"evaluation": pauses}, step_cpus=(STEP,) * 20, early=(0,) * len(steps)))
    assert found.step_cpus == pytest.approx((STEP,) * 20)
    assert len(found.early) == len(found.waits)


def test_a_loader_that_is_built_for_each_pass_starts_workers_though_they_persist() -> None:
    epochs = tuple(replace(e, fresh=True) for e in loader().epochs)
    assert lost(loader(persistent_workers=True, epochs=epochs)) is not None


def test_too_few_rounds_of_grown_workers_say_nothing() -> None:
    assert lost(loader(passes=3, batches=6)) is None


def test_workers_that_persist_pay_for_their_youth_once() -> None:
    mine = loader()
    process = Process(
        pid=1, rank=None, wall=2.0, ledger={}, inclusive={}, loop=2.0, batches=mine.batches, samples=0,
        optimizer_steps=0, loaders=(mine,),
    )  # fmt: skip
    run = Features(command=("x",), wall=2.0, machine=Machine(cpus=8.0, cpus_seen=8), processes=(process,), devices=())
    outlook = Outlook(run, process, mine)
    assert outlook.starting(WORKERS) == pytest.approx(0.05 + 5 * (COPYING - STEP) + 0.02 - CPU - 0.0011, abs=0.002)
    now, then = (outlook.loop(Setting(WORKERS, 2, persistent)) for persistent in (False, True))
    starting, ending = outlook.starting(WORKERS), outlook.ending(WORKERS)
    assert now - then == pytest.approx(4 * (starting - outlook.resetting(WORKERS)) + ending)
