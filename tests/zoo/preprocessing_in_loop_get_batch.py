"""A small language model draws and tokenises its own batches, in the loop, without any DataLoader."""

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

import kit
import torch
from torch import nn

ZOO = {
    "cause": "preprocessing-in-loop",
    "says": "get_batch() tokenises for some 25 ms before each step; the twin draws its batches in another process",
    "fix": {"ahead": True},
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


def ahead() -> Iterator[torch.Tensor]:
    """Yield the same batches, tokenised in a process of its own while the step runs."""
    ready: queue.Queue[list[list[int]]] = queue.Queue(4)

    def draw() -> None:
        with ProcessPoolExecutor(1) as pool:
            for made in pool.map(tokens, range(STEPS)):
                ready.put(made)

    threading.Thread(target=draw, daemon=True).start()
    for _ in range(STEPS):
        yield torch.tensor(ready.get())


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(4096, 128)
        self.mix = nn.Sequential(nn.Linear(128, 192), nn.GELU(), nn.Linear(192, 128))
        self.head = nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.mix(self.embed(x)))


if __name__ == "__main__":
    args = kit.settings(ZOO, ahead=False)
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    pace = kit.Pace()
    for x in ahead() if args.ahead else map(get_batch, range(STEPS)):
        logits = model(x[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten() % 64)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        pace.saw(len(x))
