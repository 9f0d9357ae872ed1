"""Healthy: a convolutional net that needs all CPUs, and two workers that hardly need any."""

import kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "steps of some 40 ms on all CPUs, batches of 2 ms",
    "fix": {},
    "device": "none",
    "also": [],
}


class Digits(Dataset):
    def __len__(self) -> int:
        return 16 * 180

    def __getitem__(self, index):
        return torch.full((1, 64, 64), (index % 10) / 10), index % 10


def main(args) -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4),
        nn.Flatten(), nn.Linear(32 * 16 * 16, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    loader = DataLoader(
        Digits(), batch_size=16, shuffle=True, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor
    )
    pace = kit.Pace()
    for images, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(images), labels).backward()
        optimizer.step()
        pace.saw(len(labels))


if __name__ == "__main__":
    main(kit.settings(ZOO, num_workers=2, prefetch_factor=2))
