"""Two ranks with a wide model and few rows: gradients take longer to travel than to compute."""

import contextlib

import kit_cuda as kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ZOO = {
    "cause": "communication-bound",
    "says": "0.5 GB of gradients for 4096 rows: the exchange of each step outlasts it",
    "fix": {"gradient_accumulation": 8},
    "device": "cuda",
    "devices": 2,
    "always": ["--set", "rate_link=50000000000"],
    "also": [],
    "waits": 0.327,
}
ROWS, WIDTH, LAYERS = 4096, 4096, 8


def main() -> None:
    args = kit.settings(ZOO, gradient_accumulation=1)
    torch.set_num_threads(1)
    rank = kit.joined()
    with torch.device("cuda"):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(LAYERS)))
        model = DistributedDataParallel(model, device_ids=[rank], gradient_as_bucket_view=True)
        x = torch.zeros(ROWS, WIDTH)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
    every, pace = args.gradient_accumulation, kit.Pace()
    for step in range(1, 177):
        last = step % every == 0
        with contextlib.nullcontext() if last else model.no_sync():
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(x).float().square().mean()
            (loss / every).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        pace.saw(2 * ROWS)
    pace.done()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
