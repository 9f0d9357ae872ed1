"""A host that stands in launches since a card's queue is full is told to wait for the device, as its script saw it."""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Maker = Callable[..., Any]
POINTS = 0.07  # of the loop: what the host needs for itself is told by the first steps, which are slower than others
PATIENCE = 120.0  # s
TRAINING = """
import json, sys, time, torch
from torch import nn
kernels, host_ms, reads = json.loads(sys.argv[1])
MS = 1_980_000  # cycles
model = nn.Linear(8, 8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.zeros(8, 8).cuda()
now, stood, quickest = time.perf_counter, 0.0, 1.0
for n in range(70):
    if n == 1:
        began, stood = now(), 0.0
    until = now() + host_ms / 1e3
    while now() < until: pass
    for _ in range(kernels):
        t = now()
        torch.cuda._sleep(3 * MS)
        took = now() - t
        stood += took if took > 1e-3 else 0.0  # those that stand do so until a kernel of 3 ms is over
    optimizer.zero_grad()
    t = now()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    quickest = min(quickest, now() - t)  # that of the first steps, whose queue has room
    stood += now() - t - quickest
    if reads and n % 7 == 6: loss.item()
print(stood / (now() - began))
"""


def told(machine: Any, *settings: object) -> tuple[dict[str, float], float, str]:
    """Return the share of each word of the ledger's loop, that of standing in launches by the script, the report."""
    (machine.folder / "train.py").write_text(TRAINING)
    verdict, run = machine.folder / "verdict.json", machine.folder / "run"
    watch = [sys.executable, "-m", "gputune", "watch", "--json", verdict, "--out", run]
    done = subprocess.run(
        [*watch, "--", machine._simcuda.PYTHON, machine.folder / "train.py", json.dumps(settings)],
        env=machine.environment(queue=96),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(verdict.read_text())
    around = ("startup", "teardown")
    loop = sum(row["seconds"] for row in document["ledger"] if row["span"] not in around)
    return (
        {row["span"]: row["seconds"] / loop for row in document["ledger"]},
        float(done.stdout),
        " ".join(done.stderr.split()),
    )


def test_a_full_queue_is_a_wait_for_the_device(machine: Maker) -> None:
    ledger, stood, report = told(machine(), 20, 15, False)
    assert stood > 0.4
    assert ledger["launch.wait"] == pytest.approx(stood, abs=POINTS)
    assert "of it waiting for the device in launches: its queue is full" in report


def test_a_queue_that_is_read_empty_is_none(machine: Maker) -> None:
    ledger, stood, report = told(machine(), 8, 15, True)
    assert stood < POINTS
    assert ledger.get("launch.wait", 0.0) < POINTS
    assert "queue is full" not in report
