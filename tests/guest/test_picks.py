"""What a batch sampler takes to say which samples come next, in the real torch: with workers, without, and steered."""

from collections.abc import Callable
from typing import Any

import pytest

from gputune.core.events import BatchCode, Kind

CODE = """
import time, torch
from torch.utils.data import DataLoader

class Sampler:
    def __iter__(self):
        for n in range(12):
            time.sleep(PAUSE)
            yield [n, n + 1]
        AFTER
    def __len__(self):
        return 12

loader = DataLoader(torch.zeros(13, 4), batch_sampler=Sampler(), num_workers=WORKERS)
try:
    assert sum(len(x) for x in loader) == 24
except ValueError:
    print("theirs")
"""


def script(*, pause: float, workers: int, after: str = "pass") -> str:
    return CODE.replace("PAUSE", str(pause)).replace("WORKERS", str(workers)).replace("AFTER", after)


@pytest.mark.parametrize("pure", ["", "1"], ids=["in C", "in Python"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_slow_batch_sampler_is_timed_inside_of_the_next_that_asked_it(
    watched: Callable[..., Any], workers: int, pure: str
) -> None:
    run = watched(script(pause=0.004, workers=workers), env={"GPUTUNE_GUEST_PURE": pure}).healthy()
    picks, batches = run.records(Kind.PICK), [b for b in run.records(Kind.BATCH) if not b.code & BatchCode.END]
    assert len(picks) == len(batches) == 12
    assert min(p.t1 - p.t0 for p in picks) >= 4_000_000
    inside = [[p for p in picks if batch.t0 <= p.t0 and p.t1 <= batch.t1] for batch in batches]
    ahead = 2 * workers  # batches that are begun as the iterator comes to life
    assert [len(found) for found in inside] == [1] * (12 - ahead) + [0] * ahead
    assert not run.out


@pytest.mark.parametrize("workers", [0, 2])
def test_a_quick_one_is_not_told(watched: Callable[..., Any], workers) -> None:
    run = watched(script(pause=0.0, workers=workers).replace("time.sleep(0.0)", "pass")).healthy()
    assert len(run.records(Kind.PICK)) < 6  # a process may be held up in between
    assert len(run.records(Kind.BATCH)) == 13


@pytest.mark.parametrize("pure", ["", "1"], ids=["in C", "in Python"])
def test_what_it_raises_is_theirs(watched: Callable[..., Any], pure: str) -> None:
    code = script(pause=0.001, workers=0, after="raise ValueError(0)")
    run = watched(code, env={"GPUTUNE_GUEST_PURE": pure}).healthy()
    assert run.out == "theirs\n"
    assert not run.err


def test_iterators_that_gputune_makes_are_timed_as_torchs_are(watched: Callable[..., Any]) -> None:
    code = """
import torch, torch.utils.data.dataloader as module
from gputune_guest import iterators as making
for kind in (making._Single, making._Several, module._BaseDataLoaderIter):
    assert kind._next_index.__wrapped__
"""
    watched(code).healthy()
