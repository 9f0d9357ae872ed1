"""Two ranks share a data set by its files, and one file is much longer: `join()` lets the other one wait."""

import kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset

ZOO = {
    "cause": "uneven-shards",
    "says": "of 300 batches rank 0 gets 225, rank 1 75",
    "fix": {"first": 150},
    "device": "none",
    "also": [],
}
BATCHES, BATCH, WIDTH = 300, 192, 512


class Tagger(torch.nn.Module):
    """Reads a sequence and names its kind."""

    def __init__(self, recurrent: torch.nn.Module) -> None:
        super().__init__()
        self.recurrent, self.head = recurrent, torch.nn.Linear(48, 8)

    def forward(self, x):
        return self.head(self.recurrent(x.view(len(x), -1, 16))[0][:, -1])


def main() -> None:
    args = kit.settings(ZOO, first=225)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    recurrent = torch.nn.LSTM(16, 48, batch_first=True)
    model = DistributedDataParallel(Tagger(recurrent))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(BATCHES * BATCH, WIDTH), torch.randint(8, (BATCHES * BATCH,)))
    border = args.first * BATCH
    mine = range(border) if dist.get_rank() == 0 else range(border, len(data))
    loader = DataLoader(Subset(data, mine), BATCH, shuffle=True)
    dist.barrier()
    pace = kit.Pace()
    with model.join():
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.barrier()
    pace.saw(BATCHES * BATCH)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
