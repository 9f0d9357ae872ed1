"""Two ranks exchange the gradients of a wide model after every batch of four samples."""

import contextlib

import kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ZOO = {
    "cause": "communication-bound",
    "says": "24 MB of gradients over loopback for every batch of four samples",
    "fix": {"gradient_accumulation": 4},
    "device": "none",
    "also": [],
}
WIDTH, BATCH, STEPS = 1024, 4, 320


def main() -> None:
    args = kit.settings(ZOO, gradient_accumulation=1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randn(2 * BATCH * STEPS, WIDTH))
    loader = DataLoader(data, BATCH, sampler=DistributedSampler(data))
    dist.barrier()
    pace = kit.Pace()
    for step, (x,) in enumerate(loader, 1):
        last = step % args.gradient_accumulation == 0
        with contextlib.nullcontext() if last else model.no_sync():
            torch.nn.functional.mse_loss(model(x), x).div(args.gradient_accumulation).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()
        pace.saw(2 * len(x))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
