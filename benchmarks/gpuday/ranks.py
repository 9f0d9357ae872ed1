"""One rank of the day's DDP training, started by torchrun: `ranks.py --late S`. The last rank's loader is so late."""

import argparse
import json
import os
import time

import torch
from torch import distributed, nn
from torch.utils.data import DataLoader, Dataset

WARM = 25


class Late(Dataset):
    """Batches that take this rank so many s."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.batch = seconds, torch.randn(1024, 1024)

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.seconds:
            time.sleep(self.seconds)
        return self.batch


def main() -> None:
    """Train for `GPU_DAY_SECONDS`: so many steps as the first rank thinks that this takes, the same on each."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--late", type=float, default=0.0)
    late = options.parse_args().late
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl")
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(16))).cuda()
    model = nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    batches = iter(DataLoader(Late(late if rank == world - 1 else 0.0), batch_size=None))

    def steps(number: int) -> float:
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(number):
            loss = model(next(batches).cuda()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
        return (time.perf_counter() - began) / number

    steps(WARM)
    number = torch.tensor(float(os.environ.get("GPU_DAY_SECONDS", "5")) / steps(WARM), device="cuda")
    distributed.broadcast(number, 0)
    count = max(WARM, int(number.item()))
    took = steps(count)
    if rank == 0:
        print(json.dumps({"step_s": took, "steps": count}), flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
