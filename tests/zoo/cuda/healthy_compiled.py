"""Healthy: a compiled net; what its layers do between the products of matrices is fused into few kernels."""

import importlib.util
import sys

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": None,
    "says": "torch.compile(model): compiled once, then 15 ms on the device a step",
    "fix": {},
    "device": "cuda",
    "also": [],
}
BATCH, WIDTH = 8192, 2048


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.both, self.out = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.both(self.norm(x)).chunk(2, -1)
        return x + self.out(nn.functional.silu(a) * b)


def main() -> None:
    args = kit.settings(ZOO, num_workers=1)
    if importlib.util.find_spec("triton") is None:
        print("there is no Triton here to compile with", file=sys.stderr)
        sys.exit(77)
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    with torch.device("cuda"):
        model = nn.Sequential(nn.Linear(64, WIDTH), *(Gated() for _ in range(4)), nn.Linear(WIDTH, 16))
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    data = TensorDataset(torch.zeros(400, BATCH, 64), torch.zeros(400, BATCH, 16))
    loader = DataLoader(data, batch_size=None, num_workers=args.num_workers, pin_memory=True)
    pace = kit.Pace()
    for x, y in loader:
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.mse_loss(compiled(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
