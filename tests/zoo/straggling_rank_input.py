"""Two ranks; the files of one of them lie on a store that serves one request at a time, and slowly."""

import fcntl
import tempfile
import time
from pathlib import Path

import kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

ZOO = {
    "cause": "straggling-rank",
    "says": "rank 1 reads from a store that takes one request at a time, at 2.2 ms; rank 0's takes 0.3 ms",
    "fix": {"slow_ms": 0.3},
    "device": "none",
    "also": [],
}
BATCH, STEPS = 16, 220


class Store(Dataset):
    """Samples behind a lock: more readers only make the queue longer."""

    def __init__(self, seconds: float, lock: Path) -> None:
        self.seconds, self.lock = seconds, lock

    def __len__(self) -> int:
        return 2 * BATCH * STEPS

    def __getitem__(self, index: int):
        with self.lock.open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            time.sleep(self.seconds)
        return torch.full((256, 64), index / len(self)), torch.tensor([index / len(self)])


def main() -> None:
    args = kit.settings(ZOO, slow_ms=2.2, num_workers=2)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(64, 64), torch.nn.Tanh())]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        seconds = (args.slow_ms if dist.get_rank() == 1 else 0.3) / 1e3
        data = Store(seconds, Path(folder) / "gate")
        loader = DataLoader(data, BATCH, sampler=DistributedSampler(data), num_workers=args.num_workers)
        dist.barrier()
        pace = kit.Pace()
        for x, y in loader:
            loss = (model(x).mean((1, 2)).unsqueeze(1) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pace.saw(2 * len(y))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
