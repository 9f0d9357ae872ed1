"""What the first layer saw is kept for a plot, on the card and with its graph, until there is no memory left."""

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "memory-growth",
    "says": "134 MB more a step, until torch.OutOfMemoryError in the forward pass ends the run",
    "fix": {"detach": True},
    "device": "cuda",
    "fails": True,
    "also": [],
}
BATCH, WIDTH = 16384, 2048


class Regression(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(16))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first, *others = self.layers
        x = seen = nn.functional.gelu(first(x))
        for layer in others:
            x = nn.functional.gelu(layer(x))
        return x.mean(1), seen


def main() -> None:
    args = kit.settings(ZOO, detach=False)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = Regression()
        x = torch.zeros(BATCH, WIDTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    history = []
    pace = kit.Pace(whole=True)
    for _step in range(750):
        with torch.autocast("cuda", torch.bfloat16):
            guessed, seen = model(x)
        loss = guessed.float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(seen.detach().mean(0) if args.detach else seen)
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
