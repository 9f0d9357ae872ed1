"""Batches of two samples on a host with plain SGD: next to all of a step is calling functions."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "small-batch",
    "says": "a small network on two samples at a time; the twin takes eight",
    "fix": {"batch_size": 8},
    "device": "none",
    "also": [],
}


def main() -> None:
    args = kit.settings(ZOO, batch_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows, labels = torch.randn(24_000, 64), torch.randint(10, (24_000,))
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pace = kit.Pace()
    for _epoch in range(3):
        for x, y in DataLoader(TensorDataset(rows, labels), batch_size=args.batch_size, shuffle=True):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pace.saw(len(y))


if __name__ == "__main__":
    main()
