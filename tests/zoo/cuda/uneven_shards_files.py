"""Two ranks share a data set by its files, and one gets most of it: `join()` lets the other one wait at the end."""

import kit_cuda as kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset, TensorDataset

ZOO = {
    "cause": "uneven-shards",
    "says": "of 400 batches rank 0 gets 300, rank 1 100",
    "fix": {"first": 200},
    "device": "cuda",
    "devices": 2,
    "also": [],
    "waits": 294,
    "ledger": False,  # who is done shadows what the other reduces: that is in the books, and of no loop
}
BATCHES, BATCH, WIDTH = 400, 12288, 128


def main() -> None:
    args = kit.settings(ZOO, first=300)
    torch.set_num_threads(1)
    rank = kit.joined()
    with torch.device("cuda"):
        hidden = (nn.Sequential(nn.Linear(2048, 4096), nn.GELU(), nn.Linear(4096, 2048)) for _ in range(8))
        model = nn.Sequential(nn.Linear(WIDTH, 2048), *hidden, nn.Linear(2048, 8))
        model = DistributedDataParallel(model, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    data = TensorDataset(torch.zeros(1, BATCH, WIDTH).expand(BATCHES, -1, -1))
    mine = range(args.first) if rank == 0 else range(args.first, BATCHES)
    loader = DataLoader(Subset(data, mine), batch_size=None, shuffle=True, num_workers=1, pin_memory=True)
    pace = kit.Pace(warm=1)
    pace.saw(0)
    with model.join():
        for (x,) in loader:
            x = x.to("cuda", non_blocking=True)
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(x).float().logsumexp(1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    pace.saw(BATCHES * BATCH)
    pace.done()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
