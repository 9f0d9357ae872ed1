"""Healthy: batches are cut out of a tensor in the loop, which costs next to nothing."""

import kit
import torch
from torch import nn

ZOO = {"cause": None, "says": "get_batch() of 0.2 ms, steps of some 25 ms", "fix": {}, "device": "none", "also": []}
DATA = torch.randint(128, (100_000,))


def get_batch(batch: int = 16, length: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.randint(len(DATA) - length - 1, (batch, 1))
    places = starts + torch.arange(length)
    return DATA[places], DATA[places + 1]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(128, 96)
        layer = nn.TransformerEncoderLayer(96, 4, 192, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(96, 128)

    def forward(self, x):
        return self.head(self.blocks(self.embed(x)))


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    pace = kit.Pace()
    for _iteration in range(260):
        x, y = get_batch()
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        pace.saw(len(x))


if __name__ == "__main__":
    main()
