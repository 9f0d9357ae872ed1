"""Iterators of NVIDIA DALI, of a stand-in with the interface of `nvidia.dali.plugin.pytorch`: DALI needs a card."""

from pathlib import Path

import pytest

from gputune.core.events import BatchCode, Kind

HERE = Path(__file__).resolve().parent
FAKE = HERE / "fake_dali", HERE / "fake_torch"
BATCHES, SIZE, MAKING = 40, 16, 0.002
PIPELINE = f"""
import time
import torch
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.pytorch import DALIClassificationIterator, DALIGenericIterator

def make(index):
    time.sleep({MAKING})
    return index, -index

def pipeline(depth=2):
    return Pipeline({SIZE}, 3, make, {BATCHES}, depth)
"""
PASSES = """
for _ in range(2):
    assert [batch[0]["data"] for batch in loader] == list(range({batches}))
    {reset}
"""


def script(loader: str, reset: str = "loader.reset()") -> str:
    return PIPELINE + f"loader = {loader}\n" + PASSES.format(batches=BATCHES, reset=reset)


@pytest.mark.parametrize(
    ("loader", "reset"),
    [
        ("DALIClassificationIterator(pipeline())", "loader.reset()"),
        ("DALIClassificationIterator([pipeline()], auto_reset=True)", "pass"),
        ("DALIGenericIterator(pipeline(), ['data', 'x'], prepare_first_batch=False)", "loader.reset()"),
    ],
)
def test_each_batch_of_each_pass_is_told_once(watched, loader, reset, python) -> None:
    run = watched(script(loader, reset), path=FAKE, python=python).healthy()
    batches = run.records(Kind.BATCH)
    assert [b.c for b in batches if not b.code] == [SIZE] * 2 * BATCHES
    assert [b.code for b in batches if b.code] == [BatchCode.END] * 2
    assert len(run.records(Kind.ITERATOR)) == 2
    waits = [b.t1 - b.t0 for b in batches if not b.code]
    assert sum(waits) >= MAKING * 1e9 * (BATCHES - 4)  # all but what the queue and the first batch held


def test_an_iterator_is_told_with_its_threads_and_its_queue(watched) -> None:
    run = watched(script("DALIClassificationIterator([pipeline(), pipeline()])"), path=FAKE).healthy()
    (note,) = run.notes("loader")
    assert (note["framework"], note["dataset"]) == ("dali", "DALIClassificationIterator")
    assert (note["threads"], note["prefetch"], note["batch_size"]) == (3, 2, 2 * SIZE)
    assert note["where"] == "train.py:13"


def test_a_queue_for_each_part_counts_as_that_of_the_host(watched) -> None:
    queues = "{'cpu_size': 5, 'gpu_size': 2}"
    run = watched(script(f"DALIClassificationIterator(pipeline({queues}))"), path=FAKE).healthy()
    (note,) = run.notes("loader")
    assert note["prefetch"] == 5


def test_what_is_raised_in_a_pipeline_reaches_the_script(watched) -> None:
    broken = PIPELINE + (
        "loader = DALIClassificationIterator(pipeline())\n"
        "loader._get_outputs = lambda: 1 / 0\n"
        "next(loader)\n"
        "try:\n    next(loader)\nexcept ZeroDivisionError:\n    print('reached')\n"
    )
    run = watched(broken, path=FAKE).healthy()
    assert "reached" in run.out
    assert [b.code for b in run.records(Kind.BATCH)] == [0, BatchCode.FAILED]
