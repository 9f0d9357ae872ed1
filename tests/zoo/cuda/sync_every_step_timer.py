"""Somebody wanted to know how long a step takes, and left torch.cuda.synchronize() in the loop."""

import time

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "sync-every-step",
    "says": "torch.cuda.synchronize() at both ends of a step; what the host prepares comes on top of the device's work",
    "fix": {"sync_interval": 100},
    "device": "cuda",
    "also": [],
    "waits": 2,
}
NODES, WIDTH = 200_000, 768


class Messages(nn.Module):
    """Neighbours' features, summed up over sampled edges."""

    def __init__(self) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        summed = torch.zeros_like(x).index_add_(0, ends[0], x[ends[1]])
        return torch.relu(self.own(x) + self.others(summed))


def sampled(rng: torch.Generator) -> torch.Tensor:
    """Choose the edges of a step, in page-locked memory."""
    kit.burn(0.004)  # a walk through an adjacency list
    return torch.randint(NODES, (2, 150_000), generator=rng).pin_memory()


def main() -> None:
    args = kit.settings(ZOO, sync_interval=1)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        layers = nn.ModuleList(Messages() for _ in range(3))
        head = nn.Linear(WIDTH, 40)
        features, labels = torch.zeros(NODES, WIDTH), torch.zeros(NODES, dtype=torch.long)
    optimizer = torch.optim.Adam([*layers.parameters(), *head.parameters()], lr=1e-3, fused=True)
    rng = torch.Generator().manual_seed(1)
    pace = kit.Pace()
    took = []
    for step in range(400):
        timed = step % args.sync_interval == 0
        if timed:
            torch.cuda.synchronize()
            began = time.perf_counter()
        ends = sampled(rng).to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            x = features
            for layer in layers:
                x = layer(x, ends)
            loss = nn.functional.cross_entropy(head(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if timed:
            torch.cuda.synchronize()
            took.append(time.perf_counter() - began)
        pace.saw(NODES)
    pace.done()
    print(f"mean step {1e3 * sum(took) / len(took):.1f} ms")


if __name__ == "__main__":
    main()
