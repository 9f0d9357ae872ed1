"""A container's disk: its control group may read 50 MB/s, and every epoch reads past the page cache."""

import atexit
import mmap
import os
import shutil
import tempfile
from pathlib import Path

import kit
import numpy as np
import throttle
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "slow-storage",
    "says": "O_DIRECT reads of 64 KiB in a group that may read 50 MB/s; the twin reads the same files from /dev/shm",
    "fix": {"in_memory": True},
    "device": "none",
    "also": [],
}
SIZE, FILES, BATCH, RATE = 64 << 10, 512, 16, 50_000_000


class Patches(Dataset):
    def __init__(self, folder: Path, direct: bool) -> None:
        self.folder = folder
        self.flags = os.O_RDONLY | (os.O_DIRECT if direct else 0)
        self.buffer = None

    def __len__(self) -> int:
        return 6000

    def __getitem__(self, index):
        if self.buffer is None:
            self.buffer = mmap.mmap(-1, SIZE)  # aligned, as O_DIRECT wants it
        fd = os.open(self.folder / f"{index % FILES}.raw", self.flags)
        try:
            os.preadv(fd, [self.buffer], 0)
        finally:
            os.close(fd)
        return torch.from_numpy(np.frombuffer(self.buffer, np.uint8)[::64].astype(np.float32))


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, in_memory=False)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.0001)
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if args.in_memory else "/var/tmp"))
    atexit.register(shutil.rmtree, folder)
    for number in range(FILES):
        (folder / f"{number}.raw").write_bytes(os.urandom(SIZE))
    os.sync()
    if not args.in_memory:
        throttle.limit_reading(folder.stat().st_dev, RATE)
    loader = DataLoader(Patches(folder, direct=not args.in_memory), BATCH, num_workers=args.num_workers)
    pace = kit.Pace()
    for x in loader:
        optimizer.zero_grad()
        (net(x) / 256).square().mean().backward()
        optimizer.step()
        pace.saw(len(x))


if __name__ == "__main__":
    main()
