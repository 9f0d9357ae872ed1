"""Healthy: everything is in memory, and a loader without workers is the right one."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": None,
    "says": "a TensorDataset, num_workers=0, steps of some 20 ms",
    "fix": {},
    "device": "none",
    "also": [],
}

args = kit.settings(ZOO, num_workers=0)
torch.set_num_threads(1)
model = torch.nn.Sequential(
    torch.nn.Conv1d(1, 32, 9, padding=4), torch.nn.ReLU(), torch.nn.Conv1d(32, 32, 9, padding=4), torch.nn.ReLU(),
    torch.nn.AdaptiveAvgPool1d(8), torch.nn.Flatten(), torch.nn.Linear(256, 5),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(
    TensorDataset(torch.randn(3200, 1, 256), torch.randint(5, (3200,))), 32, shuffle=True, num_workers=args.num_workers
)
pace = kit.Pace()
for _epoch in range(7):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(y))
