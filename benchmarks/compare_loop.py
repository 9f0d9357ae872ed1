"""A short training for `compare_pairs.py`: a loop of one of ten kinds, of which one part can be made slower.

Run as `compare_loop.py KIND SLOWER`. Something of each kind sets its pace: workers that wait for storage or compute
their items, a step that waits for its device or computes, or all of it in turn where there is no worker. SLOWER is by
which share that takes longer; 0 as it is. Waiting is `sleep`, since there is no device here.
"""

import sys
import time
import warnings

import torch
from torch.utils.data import DataLoader, Dataset

BATCH = 4
WIDTH = 160  # of the matrices that stand for work: some 0.2 ms a product on one core
WAIT = 0.02  # s that an item from far storage takes
DEVICE = 0.04  # s that a device takes for a step
ITEMS, STEP, BOTH = "items", "step", "both"
KINDS = {  # kind: (workers, batches, s an item waits, products an item, s a step waits, products a step, what slows)
    "storage-1": (1, 60, WAIT, 0, 0.0, 2, ITEMS),
    "storage-2": (2, 120, WAIT, 0, 0.0, 2, ITEMS),
    "storage-4": (4, 240, WAIT, 0, 0.0, 2, ITEMS),
    "device-0": (0, 110, 0.0, 1, DEVICE, 2, STEP),
    "device-1": (1, 110, WAIT / 8, 0, DEVICE, 2, STEP),
    "device-2": (2, 110, WAIT / 4, 1, DEVICE, 2, STEP),
    "in-turn": (0, 80, WAIT / 4, 0, DEVICE, 2, BOTH),
    "mixed-2": (2, 160, WAIT / 2, 5, DEVICE / 4, 2, ITEMS),
    "decoding-1": (1, 200, 0.0, 25, 0.0, 2, ITEMS),
    "computing-0": (0, 200, 0.0, 1, 0.0, 90, STEP),
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

    def __init__(self, count: int, wait: float, products: float) -> None:
        self.count, self.wait, self.products = count, wait, products

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.wait:
            time.sleep(self.wait)
        if self.products:
            work(self.products)
        return torch.tensor(float(index % 7))


def main() -> None:
    """Train, and say nothing."""
    kind, slower = sys.argv[1], 1 + float(sys.argv[2])
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    workers, batches, wait, making, device, stepping, what = KINDS[kind]
    in_items, in_step = (slower if what in {part, BOTH} else 1.0 for part in (ITEMS, STEP))
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    dataset = Items(batches * BATCH, wait * in_items, making * in_items)
    for batch in DataLoader(dataset, batch_size=BATCH, num_workers=workers):
        work(stepping * in_step)
        if device:
            time.sleep(device * in_step)
        loss = ((weight - batch) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
