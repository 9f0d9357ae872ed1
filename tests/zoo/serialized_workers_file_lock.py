"""Every batch is read under a lock of files that all workers share, as a cache on a network drive has it."""

import fcntl
import tempfile
import time
from pathlib import Path

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "serialized-workers",
    "says": "four workers read a batch in 15 ms each, under one exclusive lock",
    "fix": {"exclusive": False},
    "device": "none",
    "also": [],
}
BATCH = 8


class Cache(Dataset):
    """Reads a batch while it holds the cache's lock: for itself, or with the other readers."""

    def __init__(self, lock: Path, kind: int) -> None:
        self.lock, self.kind = lock, kind

    def __len__(self) -> int:
        return BATCH * 2400

    def __getitems__(self, indices: list[int]) -> list[torch.Tensor]:
        with self.lock.open() as file:
            fcntl.flock(file, self.kind)
            time.sleep(0.015)
        return [torch.full((256,), index / 19200) for index in indices]


def main() -> None:
    args = kit.settings(ZOO, num_workers=4, exclusive=True)
    torch.set_num_threads(1)
    model = torch.nn.Linear(256, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "lock"
        lock.touch()
        data = Cache(lock, fcntl.LOCK_EX if args.exclusive else fcntl.LOCK_SH)
        loader = DataLoader(data, batch_size=BATCH, shuffle=True, num_workers=args.num_workers)
        pace = kit.Pace()
        for batch in loader:
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pace.saw(len(batch))


if __name__ == "__main__":
    main()
