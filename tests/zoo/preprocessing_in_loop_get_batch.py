"""A small language model draws and tokenises its own batches, in the loop, without any DataLoader."""

import kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "preprocessing-in-loop",
    "says": "get_batch() tokenises for some 25 ms before each step; the twin has two workers draw its batches",
    "fix": {"drawing": 2},
    "device": "none",
    "also": [],
}
TEXT = "the quick brown fox jumps over the lazy dog and then it does so once more because it can " * 400
STEPS = 200
BATCH, LENGTH = 24, 128


def tokens(seed: int) -> list[list[int]]:
    rows = []
    for row in range(BATCH):
        start = (seed * 7919 + row * 104729) % (len(TEXT) - 4000)
        words = TEXT[start : start + 4000].title().swapcase().split()
        numbers = [sum(ord(letter) * 31**place for place, letter in enumerate(word)) % 4096 for word in words]
        rows.append(numbers[:LENGTH])
    return rows


def get_batch(seed: int) -> torch.Tensor:
    return torch.tensor(tokens(seed))


class Drawn(Dataset):
    """The same batches, for workers to draw."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, seed: int) -> torch.Tensor:
        return get_batch(seed)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(4096, 128)
        self.mix = nn.Sequential(nn.Linear(128, 192), nn.GELU(), nn.Linear(192, 128))
        self.head = nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.mix(self.embed(x)))


if __name__ == "__main__":
    args = kit.settings(ZOO, drawing=0)
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pace = kit.Pace()
    batches = DataLoader(Drawn(), batch_size=None, num_workers=args.drawing) if args.drawing else None
    for x in batches or map(get_batch, range(STEPS)):
        logits = model(x[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten() % 64)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        pace.saw(len(x))
