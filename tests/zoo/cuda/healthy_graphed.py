"""Healthy: a whole step as one CUDA graph, replayed on inputs that are copied into place."""

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": None,
    "says": "forward, backward and optimizer are one launch of 18 ms; a copy and a replay a step",
    "fix": {},
    "device": "cuda",
    "also": [],
}
BATCH, LENGTH, WIDTH = 64, 256, 1024


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        layers = [nn.Sequential(nn.Linear(WIDTH, 4096), nn.GELU(), nn.Linear(4096, WIDTH)) for _ in range(8)]
        model = nn.Sequential(nn.Linear(64, WIDTH), *layers, nn.Linear(WIDTH, 64))
        x, y = torch.zeros(BATCH, LENGTH, 64), torch.zeros(BATCH, LENGTH, 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True, capturable=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    recorded = torch.rand(8, BATCH, LENGTH, 64).pin_memory()
    pace = kit.Pace()
    for number in range(500):
        x.copy_(recorded[number % 8], non_blocking=True)
        y.copy_(recorded[number % 8 - 1], non_blocking=True)
        graph.replay()
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
