"""Four ranks of FSDP on a slow link: each layer's weights are fetched anew for every small batch."""

import kit_cuda as kit

if __name__ == "__main__":
    kit.ranks(4)

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

ZOO = {
    "cause": "communication-bound",
    "says": "all-gathers and reduce-scatters of 1.1 GB for a few rows; four times as many take hardly longer",
    "fix": {"batch_size": 16384},
    "device": "cuda",
    "devices": 4,
    "always": ["--set", "rate_link=25000000000"],
    "also": ["small-batch"],
}
WIDTH, LAYERS = 2048, 8


def main() -> None:
    args = kit.settings(ZOO, batch_size=4096)
    torch.set_num_threads(1)
    kit.joined()
    with torch.device("cuda"):
        layers = [
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(LAYERS)
        ]
        model = nn.Sequential(*layers)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.zeros(args.batch_size, WIDTH, device="cuda")
    pace = kit.Pace()
    for _step in range(4096 * 120 // args.batch_size):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        pace.saw(4 * args.batch_size)
    pace.done()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
