"""Healthy: FSDP on two ranks; the next layer's weights come while this one computes."""

import kit_cuda as kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

ZOO = {
    "cause": None,
    "says": "25 ms of products a step, 200 MB of weights gathered beside them",
    "fix": {},
    "device": "cuda",
    "devices": 2,
    "also": [],
}
ROWS, WIDTH, LAYERS = 16384, 2048, 6


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    kit.joined()
    with torch.device("cuda"):
        model = nn.Sequential(*(Block() for _ in range(LAYERS)))
    half = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for block in model:
        fully_shard(block, mp_policy=half)
    fully_shard(model, mp_policy=half)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    records = torch.rand(2, ROWS, WIDTH, dtype=torch.float16).pin_memory()
    pace = kit.Pace()
    for step in range(240):
        x = records[step % 2].to("cuda", non_blocking=True).to(torch.bfloat16)
        loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        pace.saw(2 * ROWS)
    pace.done()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
