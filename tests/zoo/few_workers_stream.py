"""A sharded stream: each worker reads its own shards, record after record, over a line that is slow per record."""

import time

import kit
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ZOO = {
    "cause": "few-workers",
    "says": "an IterableDataset that waits 1.5 ms per record, num_workers=2",
    "fix": {"num_workers": 8},
    "device": "none",
    "also": [],
}


class Stream(IterableDataset):
    def __init__(self, shards: int, records: int) -> None:
        self.shards, self.records = shards, records

    def __iter__(self):
        me = get_worker_info()
        first, step = (me.id, me.num_workers) if me else (0, 1)
        for shard in range(first, self.shards, step):
            for record in range(self.records):
                time.sleep(0.0015)
                yield torch.full((512,), float(shard)), torch.tensor(float(record))


def main(args):
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.Tanh(), torch.nn.Linear(1024, 1))
    adam = torch.optim.Adam(model.parameters(), 1e-4)
    stream = Stream(shards=48, records=256)
    pace = kit.Pace()
    for x, y in DataLoader(stream, batch_size=32, num_workers=args.num_workers):
        adam.zero_grad()
        torch.nn.functional.mse_loss(model(x).squeeze(1), y).backward()
        adam.step()
        pace.saw(len(y))


if __name__ == "__main__":
    main(kit.settings(ZOO, num_workers=2))
