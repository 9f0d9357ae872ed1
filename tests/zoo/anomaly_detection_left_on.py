"""The search for a NaN of last month, still switched on."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "anomaly-detection",
    "says": "torch.autograd.set_detect_anomaly(True) over a net of 12 small layers",
    "fix": {"detect": False},
    "device": "none",
    "also": [],
}

args = kit.settings(ZOO, detect=True)
torch.set_num_threads(1)
torch.autograd.set_detect_anomaly(args.detect)


def block() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.LayerNorm(128), torch.nn.GELU())


def train() -> None:
    data = TensorDataset(torch.randn(64 * 1500, 128), torch.randn(64 * 1500, 1))
    net = torch.nn.Sequential(*[block() for _ in range(12)], torch.nn.Linear(128, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    pace = kit.Pace()
    for x, y in DataLoader(data, batch_size=64):
        optimizer.zero_grad()
        (net(x) - y).square().mean().backward()
        optimizer.step()
        pace.saw(len(y))


train()
