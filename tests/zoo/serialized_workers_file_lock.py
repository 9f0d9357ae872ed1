"""Every sample is read under a lock of files that all workers share, as a cache on a network drive has it."""

import fcntl
import tempfile
import time
from pathlib import Path

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "serialized-workers",
    "says": "four workers read 8 samples of 2 ms a batch, each under one exclusive lock",
    "fix": {"exclusive": False},
    "device": "none",
    "also": [],
}
BATCH = 8


class Cache(Dataset):
    """Reads a sample while it holds the cache's lock: for itself, or with the other readers."""

    def __init__(self, lock: Path, kind: int) -> None:
        self.lock, self.kind = lock, kind

    def __len__(self) -> int:
        return BATCH * 1800

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        with self.lock.open() as file:
            fcntl.flock(file, self.kind)
            time.sleep(0.002)
        return torch.full((256,), index / 14400), index % 10


def main() -> None:
    args = kit.settings(ZOO, num_workers=4, exclusive=True)
    torch.set_num_threads(1)
    model = torch.nn.Linear(256, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "lock"
        lock.touch()
        data = Cache(lock, fcntl.LOCK_EX if args.exclusive else fcntl.LOCK_SH)
        loader = DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=args.num_workers)
        pace = kit.Pace()
        for features, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pace.saw(len(labels))


if __name__ == "__main__":
    main()
