"""An IterableDataset that shares its samples out among workers, read by the training process alone."""

import time

import torch
from parts import BATCH, FEATURES, SAMPLES, SLOW, WAIT_S, model
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class Stream(IterableDataset):
    def __iter__(self):
        worker = get_worker_info()
        first, each = (worker.id, worker.num_workers) if worker else (0, 1)
        for index in range(first, SAMPLES, each):
            if SLOW:
                time.sleep(WAIT_S)
            yield torch.randn(FEATURES), index % 10


if __name__ == "__main__":
    train = DataLoader(Stream(), batch_size=BATCH)  # planted
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        for x, y in train:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
