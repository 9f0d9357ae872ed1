"""Healthy: items come from a store with a long tail, and enough workers with enough in their queues hide it."""

import random
import time

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "log-normal waits of 2 ms per sample, 6 workers, prefetch_factor=4, steps of some 10 ms",
    "fix": {},
    "device": "none",
    "also": [],
}


class LongTail(Dataset):
    def __len__(self) -> int:
        return 12 * 900

    def __getitem__(self, index):
        time.sleep(min(0.05, random.Random(index).lognormvariate(-6.7, 1.0)))
        return torch.zeros(1024), index % 2


def main() -> None:
    args = kit.settings(ZOO, num_workers=6, prefetch_factor=4)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = DataLoader(LongTail(), 12, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor)
    pace = kit.Pace()
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        pace.saw(len(y))


if __name__ == "__main__":
    main()
