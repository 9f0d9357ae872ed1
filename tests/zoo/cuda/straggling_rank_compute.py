"""Two ranks; one of them also trains a probe on the activations, and the other waits for it at each step."""

import kit_cuda as kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ZOO = {
    "cause": "straggling-rank",
    "says": "rank 1 has 12 ms more work on its device at each step",
    "fix": {"probes": 0},
    "device": "cuda",
    "devices": 2,
    "also": [],
    "waits": 0.217,
}
BATCH, WIDTH = 16384, 1024


class Probe:
    """What one rank wants to know of the activations: how alike the directions are in which they lie."""

    def __init__(self, number: int) -> None:
        self.number = number

    @torch.no_grad()
    def look(self, _module, _given, seen) -> None:
        for _ in range(self.number):
            torch.matmul(seen, seen.T).abs().mean()


def main() -> None:
    args = kit.settings(ZOO, probes=12)
    torch.set_num_threads(1)
    rank = kit.joined()
    with torch.device("cuda"):
        hidden = [nn.Sequential(nn.Linear(WIDTH, 4096), nn.GELU(), nn.Linear(4096, WIDTH)) for _ in range(8)]
        model = DistributedDataParallel(nn.Sequential(*hidden), device_ids=[rank])
        x = torch.zeros(BATCH, WIDTH)
    if rank == 1:
        hidden[-1].register_forward_hook(Probe(args.probes).look)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    pace = kit.Pace()
    for _step in range(300):
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
