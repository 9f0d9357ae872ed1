"""Volumes are read past the page cache from a disk of 30 MB/s, one after the other, by a single worker."""

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
    "says": "O_DIRECT reads of 512 KiB at 30 MB/s, num_workers=1; the twin reads the same volumes from /dev/shm",
    "fix": {"in_memory": True},
    "device": "none",
    "also": [],
}
SIDE, VOLUMES, RATE = 64, 60, 30_000_000
SIZE = SIDE**3 * 2  # float16


class Volumes(Dataset):
    def __init__(self, folder: Path, *, direct: bool) -> None:
        self.folder, self.direct, self.page = folder, direct, None

    def __len__(self) -> int:
        return 2 * 190

    def __getitem__(self, index):
        self.page = self.page or mmap.mmap(-1, SIZE)
        fd = os.open(self.folder / str(index % VOLUMES), os.O_RDONLY | (os.O_DIRECT if self.direct else 0))
        os.preadv(fd, [self.page], 0)
        os.close(fd)
        volume = np.frombuffer(self.page, np.float16).reshape(SIDE, SIDE, SIDE)
        return torch.from_numpy(volume[::2, ::2, ::2].astype(np.float32))[None]


def main() -> None:
    args = kit.settings(ZOO, num_workers=1, in_memory=False)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(
        torch.nn.Conv3d(1, 4, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 15**3, 4)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if args.in_memory else "/var/tmp"))
    atexit.register(shutil.rmtree, folder)
    for number in range(VOLUMES):
        (folder / str(number)).write_bytes(np.random.default_rng(number).random(SIZE // 2).astype(np.float16).tobytes())
    os.sync()
    if not args.in_memory:
        throttle.limit_reading(folder.stat().st_dev, RATE)
    pace = kit.Pace()
    for x in DataLoader(Volumes(folder, direct=not args.in_memory), 2, num_workers=args.num_workers):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
        pace.saw(len(x))


if __name__ == "__main__":
    main()
