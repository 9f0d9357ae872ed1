"""Which batches are sampled, and what is said of them: CPU time of the step, and what the guest itself took."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gputune.core.events import Kind

BUSY = """
import time, torch
from torch.utils.data import DataLoader
model, optimizer = torch.nn.Module(), torch.optim.Optimizer()
def burn(ns):
    end = time.process_time_ns() + ns
    while time.process_time_ns() < end: pass
for batch in DataLoader(list(range(COUNT)), batch_size=1):
    burn(PER_STEP)
    optimizer.step()
"""


def test_the_cpu_time_of_a_step_is_what_the_process_used_in_it(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = BUSY.replace("COUNT", "8").replace("PER_STEP", "5_000_000")
    run = watched(code, path=(fake_torch,)).healthy()
    guests, batches = run.records(Kind.GUEST), run.records(Kind.BATCH)
    assert len(guests) == 8
    assert {g.d for g in guests} == {batches[0].a}
    for guest, batch, following in zip(guests, batches, batches[1:], strict=False):
        assert guest.t0 <= batch.t0 <= batch.t1 <= guest.t1 <= following.t0
        assert guest.e >= 5_000_000
        assert 0 <= guest.b <= guest.t1 - guest.t0
        assert guest.a > 0
        assert guest.c > 0
    order = [r.record.kind for r in run.readings if hasattr(r, "record") and r.record.kind in {Kind.GUEST, Kind.BATCH}]
    assert order == [Kind.BATCH, Kind.GUEST] * 8 + [Kind.BATCH]  # it comes before the batch that ends its step


def test_later_batches_are_sampled_ever_more_seldom(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = """
import torch
from gputune_guest import ring, samples
at, distances = 1, []
while at < 20_000:
    samples.again()
    distances.append((at, ring.here.left))
    at += ring.here.left
print(distances)
"""
    run = watched(code, path=(fake_torch,)).healthy()
    distances = ast.literal_eval(run.out)
    assert [distance for _, distance in distances[:24]] == [1] * 24
    late = [distance for at, distance in distances if at > 1500]
    assert min(late) >= 32
    assert max(late) <= 96
    assert len(set(late)) > 30  # no rhythm that theirs could keep
    assert 60 < sum(late) / len(late) < 68
