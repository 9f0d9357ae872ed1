"""Eight sequences at a time, and the loss of each step is read: what a step costs at all is paid far too often."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "small-batch",
    "says": "a millisecond of the device in a step of 6; a batch of 128 takes hardly longer",
    "fix": {"batch_size": 64},
    "device": "cuda",
    "also": ["sync-every-step"],
    "waits": 1,
}
LENGTH, WIDTH = 64, 512


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(24, WIDTH)
        self.layers = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2048), nn.GELU(), nn.Linear(2048, WIDTH))
            for _ in range(8)
        )
        self.out = nn.Linear(WIDTH, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = x + layer(x)
        return self.out(x.mean(1))


def main() -> None:
    args = kit.settings(ZOO, batch_size=8)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sensors = TensorDataset(torch.rand(8 * 1000, LENGTH, 24), torch.randint(2, (8 * 1000,)))
    loader = DataLoader(sensors, args.batch_size, shuffle=True, num_workers=2, pin_memory=True)
    pace, total = kit.Pace(), 0.0
    for x, y in loader:
        x, y = x.to("cuda", non_blocking=True), y.to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        pace.saw(len(y))
    pace.done()


if __name__ == "__main__":
    main()
