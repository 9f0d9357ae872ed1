"""Healthy: eight small batches are accumulated into each step of the optimizer."""

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {"cause": None, "says": "gradients of 8 batches per optimizer step", "fix": {}, "device": "none", "also": []}
ACCUMULATE = 8


class Waves(Dataset):
    def __len__(self) -> int:
        return 8 * 800

    def __getitem__(self, index):
        return torch.sin(torch.arange(1024) * (index / 1000)), index % 6


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 6144), torch.nn.ReLU(), torch.nn.Linear(6144, 6))
    optimizer = torch.optim.AdamW(model.parameters())
    loader = DataLoader(Waves(), batch_size=8, shuffle=True, num_workers=1)
    pace = kit.Pace()
    for number, (x, y) in enumerate(loader, 1):
        (torch.nn.functional.cross_entropy(model(x), y) / ACCUMULATE).backward()
        if number % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
        pace.saw(len(y))


if __name__ == "__main__":
    main()
