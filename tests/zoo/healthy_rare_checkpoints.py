"""Healthy: the state is saved now and then, as it should be."""

import tempfile
from pathlib import Path

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {"cause": None, "says": "16 MB saved every 150 steps", "fix": {}, "device": "none", "also": []}


def main() -> None:
    args = kit.settings(ZOO, num_workers=1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 1024))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(torch.randn(24 * 450, 1024)), batch_size=24, num_workers=args.num_workers)
    with tempfile.TemporaryDirectory() as folder:
        pace = kit.Pace()
        for step, (x,) in enumerate(loader, 1):
            optimizer.zero_grad()
            (model(x) - x).square().mean().backward()
            optimizer.step()
            if step % 150 == 0:
                torch.save(model.state_dict(), Path(folder) / f"{step}.pt")
            pace.saw(len(x))


if __name__ == "__main__":
    main()
