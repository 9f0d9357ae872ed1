"""A model is saved as numpy's arrays, compressed, every ten steps, by a method that makes the step as well."""

import tempfile
from pathlib import Path

import kit
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "frequent-checkpoint",
    "says": "np.savez_compressed of a model of 1.2 MB every 10 steps",
    "fix": {"checkpoint_interval": 500},
    "device": "none",
    "also": [],
}


class Trainer:
    def __init__(self, folder: str, interval: int) -> None:
        self.network = torch.nn.Sequential(torch.nn.Linear(300, 960), torch.nn.ReLU(), torch.nn.Linear(960, 8))
        self.optimizer = torch.optim.AdamW(self.network.parameters())
        self.folder, self.interval, self.step = Path(folder), interval, 0

    def save(self) -> None:
        weights = {name: value.numpy() for name, value in self.network.state_dict().items()}
        np.savez_compressed(self.folder / f"{self.step % 3}.npz", **weights)

    def train(self, x, y) -> None:
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.network(x), y).backward()
        self.optimizer.step()
        self.step += 1
        if self.step % self.interval == 0:
            self.save()


def main() -> None:
    args = kit.settings(ZOO, checkpoint_interval=10)
    torch.set_num_threads(1)
    data = TensorDataset(torch.randn(64 * 1200, 300), torch.randint(0, 8, (64 * 1200,)))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(folder, args.checkpoint_interval)
        pace = kit.Pace()
        for x, y in DataLoader(data, batch_size=64):
            trainer.train(x, y)
            pace.saw(len(y))


if __name__ == "__main__":
    main()
