"""Memory of the device runs out under `gputune watch`, by torch's own allocator: what is told of it, and why."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Maker = Callable[..., Any]
PATIENCE = 120.0  # s
MIB = 1 << 20
TOTAL = 8192 * MIB
TRAIN = """
import time, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
def held(mib): return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")  # asks
model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(60 * 8, 64))
def train(each):
    for n, (x,) in enumerate(DataLoader(data, batch_size=8)):
        each(n)
        loss = model(x.cuda()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
kept = []
"""
IN_PIECES = """
for _ in range(5):
    large = held(1200)
    del large
    kept.append(held(700))  # a piece of what is cached: the rest of it is good for nothing larger
def each(n):
    if n == 50: held(1800)
"""
GROWING = """
def each(n):
    time.sleep(0.05)  # so that the allocator's numbers, which are read seldom, are read in some steps
    kept.append(held(200))
"""
CAUGHT = """
def each(n):
    if n % 10 == 5:
        try: held(9000)
        except torch.OutOfMemoryError: print("caught", n)
"""


def watched(made: Any, code: str) -> tuple[int, dict[str, Any], str]:
    """Watch a training on a card of 8 GiB; return its status, what the verdict says of memory, and the report."""
    script: Path = made.folder / "train.py"
    script.write_text(TRAIN + code + "train(each)\n")
    made.cards.set(memory_total=TOTAL, memory_reserved=0)
    verdict = made.folder / "verdict.json"
    command = [sys.executable, "-m", "gputune", "watch", "--json", verdict, "--", "python", script]
    done = subprocess.run(
        command, env=made.environment(), cwd=made.folder, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    (row,) = json.loads(verdict.read_text())["out_of_memory"]
    line = next(n for n, text in enumerate(script.read_text().splitlines(), 1) if text.endswith("# asks"))
    assert row["where"] == f"train.py:{line}"
    assert row["total_bytes"] == TOTAL
    return done.returncode, row, " ".join(done.stderr.split())


def test_memory_that_lies_in_pieces_is_told_with_what_would_have_been_enough(machine: Maker) -> None:
    status, row, report = watched(machine(), IN_PIECES)
    assert (status, row["ended"], row["fragmented"]) == (1, True, True)
    assert row["asked_bytes"] == 1800 * MIB
    assert row["live_bytes"] == pytest.approx(3500 * MIB, rel=0.01)
    assert row["reserved_bytes"] == pytest.approx(6000 * MIB, rel=0.02)
    assert row["growth_bytes_per_step"] is None
    assert "in one piece it would have been enough: set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in report


def test_what_grew_a_step_is_told_and_is_no_fragmentation(machine: Maker) -> None:
    status, row, report = watched(machine(), GROWING)
    assert (status, row["ended"], row["fragmented"]) == (1, True, False)
    assert row["growth_bytes_per_step"] == pytest.approx(200 * MIB, rel=0.02)
    assert "it grew by 200.0 MiB a step before" in report


def test_memory_that_runs_out_and_is_caught_ends_nothing(machine: Maker) -> None:
    status, row, report = watched(machine(), CAUGHT)
    assert (status, row["ended"], row["went_on"], row["times"]) == (0, False, True, 6)
    assert not row["fragmented"]
    assert row["growth_bytes_per_step"] is None
    assert "the script caught it and trained on" in report
