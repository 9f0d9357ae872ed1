"""Every step's line is printed to a file and synced to disk at once, so that nothing is lost at a crash."""

import os
import tempfile
from pathlib import Path

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "frequent-logging",
    "says": "print(..., flush=True) of a histogram and fsync at every step of some 3 ms",
    "fix": {"log_interval": 100},
    "device": "none",
    "also": [],
}

args = kit.settings(ZOO, log_interval=1)
torch.set_num_threads(1)
net = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
data = DataLoader(TensorDataset(torch.randn(64 * 1500, 256)), batch_size=64)
with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log.txt").open("w") as log:
    pace = kit.Pace()
    for epoch in range(3):
        for step, (x,) in enumerate(data, 1):
            loss = (net(x) - x).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % args.log_interval == 0:
                for line in range(8):
                    print(epoch, step, line, "#" * 60, file=log, flush=True)
                    os.fsync(log.fileno())
            pace.saw(len(x))
