"""Pipelines of tf.data, in loops of the user's own and in Keras's `fit`: with a TensorFlow in pure Python.

`make loops` runs the same with the real one.
"""

import itertools
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.events import BatchCode, FetchCode, Kind, SpanCode

FAKE = Path(__file__).resolve().parent / "fake_tensorflow"
SAMPLES, SIZE, EPOCHS = 330, 16, 2
BATCHES = -(-SAMPLES // SIZE)
MAKING, STEP = 0.016, 0.004  # s at the least
PIPELINE = f"""
import time
import tensorflow
from tensorflow.python.data.ops.dataset_ops import _RangeDataset

def load(index):
    time.sleep({MAKING / SIZE})
    return index

def pipeline(samples={SAMPLES}):
    data = _RangeDataset(samples)
    data = data.map(load)
    return data.batch({SIZE})

MAP = "train.py:11"
"""
LOOP = f"""
data = pipeline()
for _ in range({EPOCHS}):
    seen = []
    for batch in data:
        seen += batch.elements
        time.sleep({STEP})
    assert seen == list(range({SAMPLES}))
"""
FIT = f"""
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
trainer = TensorFlowTrainer(lambda batch: time.sleep({STEP}), known=KNOWN)
trainer.fit(pipeline(), {EPOCHS}, pipeline(64))
"""
Run = Callable[..., Any]


@pytest.fixture
def loop(watched: Run) -> Any:
    return watched(PIPELINE + LOOP, path=(FAKE,)).healthy()


def test_batches_are_counted_with_their_samples(watched: Run, python: str) -> None:
    run = watched(PIPELINE + LOOP, path=(FAKE,), python=python).healthy()
    batches = run.records(Kind.BATCH)
    assert [b.c for b in batches if not b.code] == [*[SIZE] * (BATCHES - 1), SAMPLES % SIZE] * EPOCHS
    assert [b.code for b in batches if b.code] == [BatchCode.END] * EPOCHS
    assert len(run.records(Kind.ITERATOR)) == EPOCHS


def test_a_pipeline_is_told_once_at_the_line_of_its_map(loop: Any) -> None:
    (note,) = loop.notes("loader")
    assert (note["framework"], note["batch_size"], note["dataset"]) == ("tf.data", SIZE, "_RangeDataset")
    assert note["where"] == "train.py:12"
    assert note["maps"] == ["train.py:12"]


def test_its_stages_are_told_with_what_they_took(loop: Any) -> None:
    (note,) = loop.notes("pipeline")
    assert note["stages"] == [["BatchV2", 1, 0, 0], ["Map", 1, 0, 0], ["Range", 1, 0, 0]]
    made = loop.records(Kind.FETCH)
    assert made
    assert {f.code for f in made} == {FetchCode.TFDATA | 1 << 8}
    assert all(f.t1 - f.t0 >= MAKING * 1e9 for f in made)


@pytest.mark.parametrize("known", [True, False], ids=["known-length", "unknown-length"])
def test_waits_inside_of_fit_are_told(watched: Run, known: bool) -> None:
    run = watched(PIPELINE + f"KNOWN = {known}" + FIT, path=(FAKE,)).healthy()
    assert [note["where"] for note in run.notes("loader")] == ["train.py:12"] * 2
    training, held_out = (note["id"] for note in run.notes("loader"))
    of = {r.a: r.b for r in run.records(Kind.ITERATOR)}
    batches = [b for b in run.records(Kind.BATCH) if not b.code & BatchCode.END]
    mine = [b for b in batches if of[b.a] == training]
    assert [b.b for b in mine] == [*range(BATCHES)] * EPOCHS
    assert sum(b.c for b in mine) == SAMPLES * EPOCHS
    assert len([b for b in batches if of[b.a] == held_out]) == 64 // SIZE * EPOCHS
    timed = [b for b in mine if not b.code & BatchCode.UNTIMED and b.b < BATCHES - 1]  # the last one is smaller
    assert len(timed) == (BATCHES - 1) * EPOCHS
    steps = [other.t0 - one.t1 for one, other in itertools.pairwise(timed) if other.b == one.b + 1]
    # one by one they are as exact as the machine is idle: what delays a step's call is taken off the wait before it
    assert statistics.median(b.t1 - b.t0 for b in timed) >= 0.9 * MAKING * 1e9
    assert statistics.median(steps) >= 0.9 * STEP * 1e9


def test_an_evaluation_inside_of_fit_is_a_span(watched: Run) -> None:
    run = watched(PIPELINE + "KNOWN = True" + FIT, path=(FAKE,)).healthy()
    spans = run.spans(SpanCode.EVALUATION, "evaluate")
    assert len(spans) == EPOCHS
    held_out = run.notes("loader")[1]["id"]
    own = {r.a for r in run.records(Kind.ITERATOR) if r.b == held_out}
    inside = [b for b in run.records(Kind.BATCH) if any(s.t0 <= b.t0 and b.t1 <= s.t1 for s in spans)]
    assert {b.a for b in inside} == own


def test_what_is_traced_is_left_alone(watched: Run) -> None:
    code = """
from tensorflow.python.eager import context
data = pipeline()
iterator = iter(data)
context.eager = False
next(iterator)
iter(pipeline())
context.eager = True
next(iterator)
"""
    run = watched(PIPELINE + code, path=(FAKE,)).healthy()
    assert len(run.records(Kind.ITERATOR)) == 1
    assert len(run.records(Kind.BATCH)) == 1


def test_a_pipeline_without_a_model_is_counted_all_the_same(watched: Run) -> None:
    code = """
from tensorflow.python.data.experimental.ops import iterator_model_ops
def get_model_proto(iterator):
    raise RuntimeError("NotFoundError: autotune is off")
iterator_model_ops.get_model_proto = get_model_proto
"""
    run = watched(PIPELINE + code + "KNOWN = True" + FIT + LOOP, path=(FAKE,)).healthy()
    assert run.records(Kind.FETCH) == []
    counted = [b for b in run.records(Kind.BATCH) if not b.code & BatchCode.END]
    assert len(counted) == 2 * EPOCHS * BATCHES + EPOCHS * 64 // SIZE
    assert len([b for b in counted if not b.code]) == EPOCHS * BATCHES  # those of the loop are timed in Python


def test_what_predict_gets_in_python_is_counted_once(watched: Run) -> None:
    code = "trainer.predict(pipeline(64))"
    run = watched(PIPELINE + "KNOWN = True" + FIT + code, path=(FAKE,)).healthy()
    (span,) = run.spans(SpanCode.EVALUATION, "predict")
    inside = [b for b in run.records(Kind.BATCH) if span.t0 <= b.t0 and b.t1 <= span.t1 and not b.code & BatchCode.END]
    assert len(inside) == 64 // SIZE
