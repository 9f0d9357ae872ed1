"""A careful trainer: each checkpoint is written beside the old one, synced to disk and renamed; every ten steps."""

import os
import tempfile
from pathlib import Path

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "frequent-checkpoint",
    "says": "torch.save of 48 MB with fsync and rename every 10 steps, two workers that keep up",
    "fix": {"checkpoint_interval": 250},
    "device": "none",
    "also": [],
}


class Noise(Dataset):
    def __len__(self):
        return 24 * 900

    def __getitem__(self, index):
        return torch.randn(256), index % 4


class Trainer:
    def __init__(self, folder: str, interval: int) -> None:
        self.network = torch.nn.Sequential(torch.nn.Linear(256, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 4))
        self.memory = torch.zeros(12_000_000)  # a bank of past features: part of the state
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.1, momentum=0.9)
        self.path, self.interval = Path(folder) / "state.pt", interval

    def checkpoint(self) -> None:
        beside = self.path.with_suffix(".tmp")
        with beside.open("wb") as file:
            torch.save({"network": self.network.state_dict(), "memory": self.memory}, file)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(self.path)

    def fit(self, loader: DataLoader) -> None:
        pace = kit.Pace()
        for step, (x, y) in enumerate(loader, 1):
            self.optimizer.zero_grad()
            torch.nn.functional.cross_entropy(self.network(x), y).backward()
            self.optimizer.step()
            self.memory[step * 256 : step * 256 + 256] = x.mean(0)
            if step % self.interval == 0:
                self.checkpoint()
            pace.saw(len(y))


def main() -> None:
    args = kit.settings(ZOO, checkpoint_interval=10, num_workers=2)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        Trainer(folder, args.checkpoint_interval).fit(DataLoader(Noise(), 24, num_workers=args.num_workers))


if __name__ == "__main__":
    main()
