"""A stream over shards of which there is one, and three workers: two have nothing to read."""

import time
from collections.abc import Iterator

import kit
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ZOO = {
    "cause": "heavy-shard",
    "says": "one shard for three workers; decoding a record waits 1 ms",
    "fix": {"shards": 3},
    "device": "none",
    "also": [],
}
BATCH, RECORDS = 16, 16 * 450


class Shards(IterableDataset):
    """Each worker reads every n-th shard."""

    def __init__(self, shards: int) -> None:
        self.shards = shards

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        for _shard in range(worker.id, self.shards, worker.num_workers):
            for number in range(RECORDS // self.shards):
                time.sleep(0.001)
                yield torch.full((128,), number / RECORDS)


def main() -> None:
    args = kit.settings(ZOO, num_workers=3, shards=1)
    torch.set_num_threads(1)
    model = torch.nn.Linear(128, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pace = kit.Pace()
    for batch in DataLoader(Shards(args.shards), batch_size=BATCH, num_workers=args.num_workers):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(batch))


if __name__ == "__main__":
    main()
