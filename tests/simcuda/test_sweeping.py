"""Sweeps of a training on a card: batch sizes up to a real OutOfMemoryError, and batches in page-locked memory."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Maker = Callable[..., Any]
GPUTUNE = (sys.executable, "-m", "gputune")
PATIENCE = 240.0  # s
MB = 1 << 20
TRAIN = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader
size, workers, a_sample, kept, slow_ms = map(int, sys.argv[1:])
class Data:
    def __init__(self): self.sample = torch.ones(a_sample, dtype=torch.uint8)
    def __len__(self): return 1_000_000
    def __getitem__(self, i): return self.sample
if __name__ == "__main__":
    torch.set_num_threads(1)
    model = nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for n, batch in enumerate(DataLoader(Data(), batch_size=size, num_workers=workers)):
        there = batch.to("cuda", non_blocking=True)
        activations = torch.empty(kept * len(batch), dtype=torch.uint8, device="cuda")
        if slow_ms: torch.cuda._sleep(slow_ms * 1_980_000)
        loss = model(torch.ones(len(batch), 64, device="cuda")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del activations
"""


def swept(made: Any, *options: str, arguments: tuple[int, ...]) -> dict[str, Any]:
    """Sweep the training on a machine's card; return the document."""
    script: Path = made.folder / "train.py"
    script.write_text(TRAIN)
    command = [*GPUTUNE, "sweep-loader", "--json", "--write", "-", "--out", made.folder / "sweep", *options, script]
    done = subprocess.run(
        [*map(str, command), *map(str, arguments)],
        env=made.environment(), cwd=made.folder, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_batch_sizes_grow_until_memory_really_runs_out_and_the_largest_that_fits_is_tried(machine: Maker) -> None:
    made = machine()
    made.cards.set(memory_total=5760 * MB, memory_reserved=0)
    found = swept(made, "--batch-sizes", "auto", arguments=(24, 0, 8, 64 * MB, 20))  # 20 ms a step, whatever its size
    rows = {row["batch_size"]: row for row in found["trials"] if row["replayed"]}
    assert list(rows) == [24, 48, 96, 72]  # nine tenths of the card are enough for 73
    assert rows[96]["state"] == "oom"
    assert "more of GPU 0, where tensors held" in rows[96]["why"]
    assert "torch.OutOfMemoryError" in "".join(log.read_text() for log in made.folder.glob("sweep/**/*.log"))
    assert found["best"]["batch_size"] == 72
    for size in (24, 48, 72):
        assert rows[size]["state"] == "ok"
        assert rows[size]["device_memory"] == pytest.approx((512 + 64 * size) * MB, rel=0.05)  # with its context


def test_page_locked_batches_are_found_where_copies_hold_the_training(machine: Maker) -> None:
    made = machine()
    made.cards.set(rate_pageable=100_000_000)  # B/s: 8 MB take 80 ms, and hold the host
    found = swept(made, "--budget", "60s", arguments=(4, 1, 2_000_000, 8, 5))
    assert not found["baseline"]["pin_memory"]
    assert found["best"]["pin_memory"], found
    assert found["speedup"]["low"] > 1.3
    assert found["ceiling"] > 2 * found["baseline"]["samples_per_s"]  # of 85 ms, 80 go
    assert found["ceiling"] >= 0.97 * found["best"]["samples_per_s"]
    assert found["effect"] != "changes-learning"
