"""Healthy: an average of the weights is kept by hand, over lists of tensors that were made once, after each step."""

import kit
import torch
from torch import nn

ZOO = {
    "cause": None,
    "says": "get_batch() of 0.2 ms, steps of some 25 ms, of which an average of 5 million weights takes a fifth",
    "fix": {},
    "device": "none",
    "also": [],
}
DATA = torch.randint(128, (100_000,))


def get_batch(batch: int = 4, length: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.randint(len(DATA) - length - 1, (batch, 1))
    places = starts + torch.arange(length)
    return DATA[places], DATA[places + 1]


def build() -> nn.Module:
    width = 768
    hidden = [nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)) for _ in range(8)]
    return nn.Sequential(nn.Embedding(128, width), *hidden, nn.Linear(width, 128))


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    weights = [p.detach() for p in model.parameters()]
    averages = [w.clone() for w in weights]
    pace = kit.Pace()
    for _iteration in range(400):
        x, y = get_batch()
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        for average, weight in zip(averages, weights, strict=True):
            average.mul_(0.999).add_(weight, alpha=0.001)
        pace.saw(len(x))


if __name__ == "__main__":
    main()
