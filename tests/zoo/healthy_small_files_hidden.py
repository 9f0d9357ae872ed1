"""Healthy: a small file a sample, but the workers open them while the training computes."""

import tempfile
from pathlib import Path

import kit
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "a file of 2 kB a sample, 64 samples a batch, one worker that is always ahead of steps of some 15 ms",
    "fix": {},
    "device": "none",
    "also": [],
}


class Vectors(Dataset):
    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        for number in range(count):
            np.save(folder / f"{number}.npy", np.full(256, number, np.float32))

    def __len__(self) -> int:
        return 5 * self.count

    def __getitem__(self, index):
        return torch.from_numpy(np.load(self.folder / f"{index % self.count}.npy"))


def main() -> None:
    args = kit.settings(ZOO, num_workers=1)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(256, 3072), torch.nn.Tanh(), torch.nn.Linear(3072, 256))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.0001)
    with tempfile.TemporaryDirectory() as name:
        data = Vectors(Path(name), 2000)
        loader = DataLoader(data, 64, shuffle=True, num_workers=args.num_workers)
        pace = kit.Pace()
        for x in loader:
            optimizer.zero_grad()
            (net(x / 2000) - x / 2000).square().mean().backward()
            optimizer.step()
            pace.saw(len(x))


if __name__ == "__main__":
    main()
