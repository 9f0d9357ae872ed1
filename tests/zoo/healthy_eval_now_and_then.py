"""Healthy: a validation pass at the end of each epoch, about a tenth of the time."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {"cause": None, "says": "one evaluation per epoch of 120 steps", "fix": {}, "device": "none", "also": []}


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])


def blobs(count: int) -> TensorDataset:
    return TensorDataset(torch.randn(count, 900), torch.randint(10, (count,)))


if __name__ == "__main__":
    kit.settings(ZOO)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(900, 1100), torch.nn.BatchNorm1d(1100), torch.nn.Linear(1100, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    train = DataLoader(blobs(48 * 120), 48, shuffle=True, num_workers=1, persistent_workers=True)
    valid = DataLoader(blobs(48 * 24), 48)
    pace = kit.Pace()
    for _epoch in range(7):
        model.train()
        for batch in train:
            optimizer.zero_grad()
            loss_of(model, batch).backward()
            optimizer.step()
            pace.saw(48)
        model.eval()
        with torch.no_grad():
            mean = sum(float(loss_of(model, batch)) for batch in valid) / len(valid)
