"""low-prefetch speaks when bursts empty the queue although the workers are fast enough on average."""

import pytest

from gputune.advisors.low_prefetch import advise

# Two workers; of twenty batches sixteen take 5 ms and four in a row 60 ms: 16 ms on average, 8 ms with two workers.
BURSTS = {
    "num_workers": 2,
    "fetches": [(0.0, 0.005)] * 16 + [(0.0, 0.060)] * 4,
    "step": 0.010,
    "waits": [0.0005] * 16 + [0.022] * 4,
}


def test_is_silent_when_all_batches_take_the_same_time(run) -> None:
    assert list(advise(run(num_workers=2, blocked=0.010, step=0.010))) == []


def test_is_silent_when_capacity_is_missing(run) -> None:
    """Twice as slow on average: no queue helps, so what it says, if anything, is worth nothing."""
    assert all(f.speedup.likely < 1.05 for f in advise(run(num_workers=2, blocked=0.040, step=0.010)))


def test_is_silent_when_bursts_are_hidden_by_the_queue(run) -> None:
    assert list(advise(run(**{**BURSTS, "waits": [0.0003]}))) == []


def test_has_nothing_to_say_without_workers(run) -> None:
    assert list(advise(run(num_workers=0, fetches=BURSTS["fetches"], step=0.010))) == []


def test_names_a_longer_queue_and_what_it_buys(run) -> None:
    (finding,) = advise(run(**BURSTS))
    assert finding.id == "low-prefetch"
    assert finding.change["prefetch_factor"] in {4, 8, 16}
    assert finding.effect == "identical"
    assert finding.speedup.likely == pytest.approx(1.3, abs=0.2)
    assert finding.evidence["longest_batch_s"] == pytest.approx(0.060)


def test_a_longer_queue_must_fit_into_shared_memory(run) -> None:
    tight = run(**BURSTS, batch_bytes=10_000_000, shm_free=40_000_000)
    assert all(2 * f.change["prefetch_factor"] * 10_000_000 <= 80_000_000 for f in advise(tight))


def test_is_silent_where_tensorflow_has_added_a_prefetch(tensorflow) -> None:
    assert list(advise(tensorflow("Prefetch", "BatchV2", "Map", "Range", slowest=2))) == []
    assert list(advise(tensorflow("MapAndBatch", "Range"))) == []


def test_is_silent_about_a_pipeline_that_hardly_waits(tensorflow) -> None:
    assert list(advise(tensorflow("BatchV2", "Map", "Range", slowest=1, making=0.0004))) == []


def test_speaks_of_prefetch_in_the_words_of_tensorflow(tensorflow) -> None:
    """A batch and a step take 10 ms each, one after the other: beside each other, half of that."""
    (finding,) = advise(tensorflow("BatchV2", "Map", "Range", slowest=1, making=0.010, cpu=0.001, step=0.010))
    assert finding.do == "end the pipeline with .prefetch(tf.data.AUTOTUNE)"
    assert finding.speedup.likely == pytest.approx(2.0, rel=0.1)
    assert finding.effect == "identical"
