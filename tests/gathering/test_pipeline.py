"""What is known of a pipeline of tf.data, from the notes and records of the training process."""

import pytest

from gputune.core.events import BatchCode, FetchCode, Kind

STAGES = [["Prefetch", 1, 0, 2], ["BatchV2", 1, 0, 0], ["Map", 1, 0, 0], ["Range", 1, 0, 0]]
MAP = 2


def pipeline(told, **differs) -> None:
    """A pipeline whose map takes nearly all of the time, and its first iterator."""
    told.loader(framework="tf.data", batch_size=32, maps=["input.py:7"], python=True, **differs)
    told.iterator()
    told.note(n="pipeline", id=1, stages=STAGES)


def reading(told, *, took: float, slowest: float, cpu: float) -> None:
    """What its stages took of one batch, in ms, told before the next batch."""
    code = FetchCode.TFDATA | MAP << 8
    told.record(Kind.FETCH, told.at, told.at + took, code=code, a=round(cpu * 1e6), b=-1, d=round(slowest * 1e6))


def test_stages_and_what_they_took_are_kept(untold) -> None:
    pipeline(untold)
    for took in (90, 40, 44):
        reading(untold, took=took, slowest=took - 2, cpu=10)
        untold.epoch(4)
    (loader,) = untold.features().processes[0].loaders
    found = loader.pipeline
    assert [stage.name for stage in found.stages] == ["Prefetch", "BatchV2", "Map", "Range"]
    assert found.stages[0].buffer == 2
    assert (found.slowest, found.culprit.name) == (MAP, "Map")
    assert [m.wall for m in found.makings] == pytest.approx([0.040, 0.044])  # the first reading is warm-up
    assert [m.slowest for m in found.makings] == pytest.approx([0.038, 0.042])
    assert found.makings[0].cpu == pytest.approx(0.010)
    assert (found.python, found.where) == (True, "input.py:7")


def test_the_slowest_stage_is_the_one_that_most_readings_name(untold) -> None:
    """Near the end of an epoch the stages that have done all of their work are gone."""
    pipeline(untold)
    for _ in range(3):
        reading(untold, took=40, slowest=38, cpu=10)
        untold.epoch(4)
    untold.record(Kind.FETCH, untold.at, untold.at + 1, code=FetchCode.TFDATA | 1 << 8, a=1000, b=-1, d=1000)
    untold.epoch(1)
    (loader,) = untold.features().processes[0].loaders
    assert loader.pipeline.slowest == MAP


def test_it_is_no_dataloader(untold) -> None:
    """What advisors know of DataLoaders must not be said of it: nothing of its making is told as theirs is."""
    pipeline(untold)
    for _ in range(4):
        reading(untold, took=40, slowest=38, cpu=10)
        untold.epoch(30)
    (loader,) = untold.features().processes[0].loaders
    assert loader.fetches == ()
    assert loader.shards is None
    assert (loader.batches, loader.samples) == (120, 120 * 32)


def test_a_dataloader_has_no_pipeline(untold) -> None:
    untold.loader()
    untold.iterator()
    untold.epoch(30)
    (loader,) = untold.features().processes[0].loaders
    assert loader.pipeline is None


def test_batches_whose_wait_is_not_known_are_counted_and_not_timed(untold) -> None:
    pipeline(untold)
    untold.epoch(20)
    for _ in range(5):
        untold.record(Kind.BATCH, untold.at, untold.at, code=BatchCode.UNTIMED, a=1, c=32)
        untold.step()
    (loader,) = untold.features().processes[0].loaders
    assert loader.batches == 25
    assert min(loader.waits) > 0


def test_a_note_that_is_none_is_passed_over(untold) -> None:
    untold.loader()
    untold.note(n="pipeline", id=1, stages=STAGES)  # of a DataLoader
    untold.note(n="pipeline", id=9, stages=STAGES)
    pipeline(untold, id=2)
    untold.note(n="pipeline", id=2, stages="none")
    assert len(untold.features().processes) <= 1


def test_an_iterator_of_dali_has_threads_and_a_queue_and_no_stages(untold) -> None:
    untold.loader(framework="dali", threads=3, prefetch=2)
    untold.iterator()
    untold.epoch(30)
    (loader,) = untold.features().processes[0].loaders
    assert (loader.pipeline.framework, loader.pipeline.threads, loader.pipeline.depth) == ("dali", 3, 2)
    assert loader.pipeline.stages == ()


def test_what_is_told_of_its_threads_may_be_nonsense(untold) -> None:
    untold.loader(framework="dali", threads=["many"], prefetch=None)
    untold.iterator()
    untold.epoch(5)
    (loader,) = untold.features().processes[0].loaders
    assert (loader.pipeline.threads, loader.pipeline.depth) == (0, 0)
