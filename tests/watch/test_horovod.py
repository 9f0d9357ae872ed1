"""Two ranks of Horovod's interface, over a stand-in for its library: who waits for whom is known of them, too."""

import json
import os
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
FAKE = Path(__file__).resolve().parents[1] / "guest" / "fake_horovod"
LAUNCH = """
import os, subprocess, sys
ranks = [{"HOROVOD_RANK": str(n), "HOROVOD_SIZE": "2", "HOROVOD_LOCAL_RANK": str(n)} for n in range(2)]
started = [subprocess.Popen([sys.executable, "train.py"], env={**os.environ, **rank}) for rank in ranks]
sys.exit(max(process.wait() for process in started))
"""
TRAIN = """
import os, time, torch
import horovod.torch as hvd
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
hvd.init()
model = torch.nn.Linear(8, 1)
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1))
for (x,) in DataLoader(TensorDataset(torch.ones(400, 8)), 4):
    optimizer.zero_grad()
    model(x).sum().backward()
    if os.environ["HOROVOD_RANK"] == "1":
        time.sleep(0.02)
        # its gradients are sent at once: what the other rank waits for is the next exchange
    hvd.allreduce(torch.ones(1))
    optimizer.step()
"""


def test_ranks_of_horovod_are_compared_and_the_late_one_is_named(watch, tmp_path, monkeypatch) -> None:
    pytest.importorskip("torch", reason="ranks of a real training are joined")
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "launch.py").write_text(LAUNCH)
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    done = watch("--json", "verdict.json", "--", sys.executable, "launch.py", env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "verdict.json").read_text())
    first, late = sorted(found["processes"], key=lambda process: process["rank"])
    assert (first["rounds"] > 0, late["rounds"] > 0) == (True, True)
    assert first["apart_s"] > 0.015  # a wait for a rank that is 20 ms late
    assert late["own_s"] > 0.018
    assert late["apart_s"] < first["apart_s"] / 2
    assert "straggling-rank" in {finding["id"] for finding in found["findings"]}
