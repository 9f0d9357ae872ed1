"""The files have left the page cache before the training starts, so its first epoch waits for the disk."""

import os
import tempfile
from pathlib import Path

import kit
import numpy as np
import throttle
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "cold-cache",
    "says": "256 files of 1 MiB on a disk of 60 MB/s, not in the page cache, six epochs; the twin has read them before",
    "fix": {"warm": True},
    "device": "none",
    "also": [],
}
SIZE, FILES, BATCH, RATE = 1 << 20, 256, 4, 60_000_000


def write(folder: Path) -> None:
    block = np.random.default_rng(3).integers(0, 255, SIZE, np.uint8).tobytes()
    for number in range(FILES):
        with (folder / f"{number:03}.bin").open("wb") as file:
            file.write(block)
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class Recordings(Dataset):
    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.glob("*.bin"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index):
        data = np.frombuffer(self.paths[index].read_bytes(), np.uint8)
        return torch.from_numpy(data[:: SIZE // 2048].astype(np.float32))


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, warm=False)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(2048, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0001)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        write(Path(name))
        data = Recordings(Path(name))
        if args.warm:
            for path in data.paths:
                path.read_bytes()
        throttle.limit_reading(Path(name).stat().st_dev, RATE)
        loader = DataLoader(data, BATCH, shuffle=True, num_workers=args.num_workers, persistent_workers=True)
        pace = kit.Pace()
        for _epoch in range(6):
            for x in loader:
                optimizer.zero_grad()
                (net(x) / 256).square().mean().backward()
                optimizer.step()
                pace.saw(len(x))


if __name__ == "__main__":
    main()
