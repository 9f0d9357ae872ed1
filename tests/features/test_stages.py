"""What a pipeline of tf.data is, from the stages that run."""

import pytest

from gputune.features.stages import Pipeline, Stage


def stages(*names: str) -> tuple[Stage, ...]:
    return tuple(Stage(name=name) for name in names)


@pytest.mark.parametrize(
    ("names", "slowest", "ahead"),
    [
        (["BatchV2", "Map", "Range"], 1, False),
        (["Prefetch", "BatchV2", "Map", "Range"], 2, True),
        (["MapAndBatch", "Range"], 0, True),
        (["BatchV2", "ParallelMapV2", "Range"], 1, True),
        (["BatchV2", "Map", "Prefetch", "Range"], 1, False),  # what is ahead lies behind the slow stage
        (["BatchV2", "FlatMap", "ParallelInterleaveV4"], 2, True),
    ],
)
def test_what_works_ahead_is_what_the_training_asks_through(names: list[str], slowest: int, ahead: bool) -> None:
    assert Pipeline(stages=stages(*names), slowest=slowest).ahead is ahead


@pytest.mark.parametrize(
    ("name", "maps"),
    [
        *(("Map", True), ("ParallelMapV2", True), ("MapAndBatch", True)),
        *(("FlatMap", False), ("Interleave", False), ("Generator", False)),
    ],
)
def test_some_stages_could_call_for_several_elements_at_once(name: str, maps: bool) -> None:
    assert Stage(name=name).maps is maps


def test_the_slow_one_of_two_maps_is_named_by_its_line() -> None:
    two = stages("BatchV2", "Map", "Shuffle", "ParallelMapV2", "Range")
    assert Pipeline(stages=two, slowest=3, maps=("a.py:1", "a.py:2")).where == "a.py:2"
    assert Pipeline(stages=two, slowest=1, maps=("a.py:1", "a.py:2")).where == "a.py:1"
    assert not Pipeline(stages=two, slowest=1, maps=("a.py:1",)).where  # others ran than were written
    assert not Pipeline(stages=two, slowest=0, maps=("a.py:1", "a.py:2")).where


def test_nothing_is_known_of_a_pipeline_that_was_not_read() -> None:
    assert Pipeline().culprit is None
    assert not Pipeline().ahead
