"""heavy-shard speaks when one worker of an iterable dataset has more to read than the others."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from gputune.advisors.heavy_shard import advise
from gputune.features import Features, Fetch
from gputune.verdict.judging import judge

MAKING = 0.020


def stream(run: Callable[..., Features], shards: Sequence[int], *, iterable: bool = True) -> Features:
    """Two passes over shards of so many batches, one for each worker: in turn, until those with less are done."""
    dealt = [worker for number in range(max(shards)) for worker, many in enumerate(shards) if number < many] * 2
    alone = sum(dealt.count(w) for w in range(len(shards))) and max(shards) * 2 * MAKING / len(dealt)
    told = run(num_workers=len(shards), blocked=MAKING, step=0.004, waits=(max(0.0, alone - 0.004),), cpus=8)
    (process,) = told.processes
    (loader,) = process.loaders
    fetches = tuple(
        Fetch(wall=MAKING, cpu=0.001, queued=0.0, collate=0.0, samples=loader.batch_size or 0, worker=worker)
        for worker in dealt
    )
    made_by = {worker: 2 * many for worker, many in enumerate(shards) if many}
    other = replace(loader, iterable=iterable, fetches=fetches, made_by=made_by)
    return replace(told, processes=(replace(process, loaders=(other,)),))


def test_is_silent_of_equal_shards_and_of_a_last_one_that_is_smaller(run) -> None:
    assert list(advise(stream(run, (50, 50, 50, 50)))) == []
    assert list(advise(stream(run, (50, 50, 50, 40)))) == []


def test_is_silent_of_a_dataset_with_an_index_whose_batches_belong_to_nobody(run) -> None:
    assert list(advise(stream(run, (150, 10, 10, 10), iterable=False))) == []


def test_is_silent_of_single_batches_that_take_long(run) -> None:
    told = stream(run, (50, 50, 50, 50))
    (process,) = told.processes
    (loader,) = process.loaders
    made = tuple(replace(f, wall=5.0) if place == 80 else f for place, f in enumerate(loader.fetches))
    other = replace(told, processes=(replace(process, loaders=(replace(loader, fetches=made),)),))
    assert list(advise(other)) == []


def test_one_heavy_shard_is_told_with_its_worker_and_what_equal_ones_bring(run) -> None:
    (finding,) = judge(stream(run, (150, 10, 10, 10)))
    assert finding.id == "heavy-shard"
    assert "worker 0 of 4 makes 83% of the batches" in finding.says
    assert finding.effect == "changes-order"
    alone, together = 150 * MAKING / 180, MAKING / 4
    assert finding.speedup.low < alone / (together + 0.0011) < finding.speedup.high


def test_a_single_shard_leaves_nothing_for_the_other_workers(run) -> None:
    (finding,) = judge(stream(run, (100, 0, 0, 0)))
    assert finding.id == "heavy-shard"
    assert "makes 100% of the batches" in finding.says
