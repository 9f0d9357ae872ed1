"""A short training for `compare_pairs.py`: a loop of one of ten kinds, of which one part can be made slower.

Run as `compare_loop.py KIND SLOWER`. Something of each kind sets its pace: workers that wait for their items or compute
them, the step, or all of it in turn where there is no worker. SLOWER is by which share that takes longer; 0 as it is.
"""

import sys
import time
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

BATCH = 8
WIDTH = 160  # of the matrices that stand for work: some 0.2 ms a product on one core
SLEEP = 0.004  # s an item that is waited for
KINDS = {  # kind: (workers, batches, s of sleep an item, products an item, products a step, what SLOWER is about)
    "items-1": (1, 80, SLEEP, 0, 2, "items"),
    "items-2": (2, 120, SLEEP, 0, 2, "items"),
    "items-4": (4, 200, SLEEP, 0, 2, "items"),
    "decoding-1": (1, 150, 0.0, 10, 2, "items"),
    "decoding-2": (2, 200, 0.0, 12, 2, "items"),
    "step-0": (0, 150, 0.0, 0, 80, "step"),
    "step-1": (1, 150, 0.0, 1, 80, "step"),
    "step-2": (2, 100, 0.0, 1, 120, "step"),
    "queue-items": (0, 100, SLEEP / 4, 5, 5, "both"),
    "queue-both": (0, 100, SLEEP / 4, 4, 20, "both"),
}


def work(products: float) -> torch.Tensor:
    """Compute for so many products; a part of one is a smaller one."""
    found = torch.ones(WIDTH, WIDTH)
    for _ in range(int(products)):
        found = found @ found / WIDTH
    rows = round((products - int(products)) * WIDTH)
    return found if not rows else found[:rows] @ found


class Items(Dataset[torch.Tensor]):
    """As many items as the training takes, each of which takes as long."""

    def __init__(self, count: int, sleep: float, products: float) -> None:
        self.count, self.sleep, self.products = count, sleep, products

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.sleep:
            time.sleep(self.sleep)
        if self.products:
            work(self.products)
        return torch.tensor(float(index % 7))


def main() -> None:
    """Train, and say nothing."""
    kind, slower = sys.argv[1], 1 + float(sys.argv[2])
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    workers, batches, sleep, making, stepping, what = KINDS[kind]
    in_items, in_step = (slower if what in {part, "both"} else 1.0 for part in ("items", "step"))
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    dataset = Items(batches * BATCH, sleep * in_items, making * in_items)
    for batch in DataLoader(dataset, batch_size=BATCH, num_workers=workers):
        work(stepping * in_step)
        loss = ((weight - batch) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
