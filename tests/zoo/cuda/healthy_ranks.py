"""Healthy: two ranks with the same work; gradients travel while the backward pass goes on."""

import kit_cuda as kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ZOO = {
    "cause": None,
    "says": "22 ms on each device a step, exchanges of 40 MB beside it",
    "fix": {},
    "device": "cuda",
    "devices": 2,
    "also": [],
    "waits": 0.222,
}
BATCH, LENGTH, WIDTH = 64, 256, 1024


def main() -> None:
    args = kit.settings(ZOO, num_workers=1)
    torch.set_num_threads(1)
    rank = kit.joined()
    with torch.device("cuda"):
        hidden = (nn.Sequential(nn.Linear(WIDTH, 4096), nn.GELU(), nn.Linear(4096, WIDTH)) for _ in range(10))
        model = DistributedDataParallel(nn.Sequential(nn.Linear(64, WIDTH), *hidden), device_ids=[rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data = TensorDataset(torch.zeros(1, LENGTH, 64).expand(2 * BATCH * 330, -1, -1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, BATCH, sampler=sampler, num_workers=args.num_workers, pin_memory=True)
    pace = kit.Pace()
    for (x,) in loader:
        x = x.to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(2 * BATCH)
    pace.done()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
