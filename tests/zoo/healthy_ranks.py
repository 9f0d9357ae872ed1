"""Healthy: two ranks with equal shares, a small model and enough to compute between two exchanges."""

import kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ZOO = {"cause": None, "says": "two ranks under torchrun, steps of 30 ms", "fix": {}, "device": "none", "also": []}
BATCH, STEPS = 64, 120


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(
        torch.nn.Sequential(
            torch.nn.Conv2d(3, 24, 3), torch.nn.ReLU(), torch.nn.Conv2d(24, 24, 3), torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(24, 10),
        )
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(2 * BATCH * STEPS, 3, 24, 24), torch.randint(10, (2 * BATCH * STEPS,)))
    loader = DataLoader(data, BATCH, sampler=DistributedSampler(data))
    dist.barrier()
    pace = kit.Pace()
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(2 * len(y))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
