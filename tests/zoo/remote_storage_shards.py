"""Shards on a file system of another machine: each sample is a read of its own, and a way there and back."""

import os
import tempfile
from pathlib import Path

import kit
import numpy as np
import remote
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "remote-storage",
    "says": "reads of 96 KiB that take 3 ms each, four workers, and a /dev/shm that holds no more batches than theirs",
    "fix": {"nearby": True},
    "device": "none",
    "container": ["--shm", "64"],
    "also": [],
}
SIZE, EACH, SHARDS, AWAY = 96 << 10, 64, 8, 0.003


class Shards(Dataset):
    def __init__(self, folder: Path) -> None:
        self.paths = [folder / f"{number}.bin" for number in range(SHARDS)]
        self.files: dict[int, int] = {}

    def __len__(self) -> int:
        return 16 * 1000

    def __getitem__(self, index):
        shard, place = divmod(index % (SHARDS * EACH), EACH)
        if shard not in self.files:
            self.files[shard] = os.open(self.paths[shard], os.O_RDONLY)
        data = os.pread(self.files[shard], SIZE, place * SIZE)
        return torch.from_numpy(np.frombuffer(data, np.uint8).astype(np.float32))


def train(folder: Path, num_workers: int) -> None:
    loader = DataLoader(Shards(folder), batch_size=16, shuffle=True, num_workers=num_workers)
    net = torch.nn.Sequential(
        torch.nn.AvgPool1d(256), torch.nn.Linear(384, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)
    )
    optimizer = torch.optim.Adam(net.parameters())
    pace = kit.Pace()
    for x in loader:
        optimizer.zero_grad()
        net(x / 255).square().mean().backward()
        optimizer.step()
        pace.saw(len(x))


def main() -> None:
    args = kit.settings(ZOO, num_workers=4, nearby=False)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        here, there = Path(name) / "here", Path(name) / "there"
        here.mkdir()
        there.mkdir()
        for number in range(SHARDS):
            (here / f"{number}.bin").write_bytes(os.urandom(SIZE * EACH))
        if args.nearby:
            train(here, args.num_workers)
        else:
            with remote.mounted(here, there, AWAY) as folder:
                train(folder, args.num_workers)


if __name__ == "__main__":
    main()
