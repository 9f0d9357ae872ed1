"""Two processes train one model in shared memory, each with as many threads as there are CPUs."""

import kit
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "oversubscribed-threads",
    "says": "two processes of two threads each on 2 CPUs",
    "fix": {"threads": 1},
    "device": "none",
    "also": [],
}


def train(model: nn.Module, threads: int, pace: kit.Pace | None) -> None:
    torch.set_num_threads(threads)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = TensorDataset(torch.randn(64 * 120, 1, 28, 28), torch.randint(10, (64 * 120,)))
    for x, y in DataLoader(data, batch_size=64, shuffle=True):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if pace is not None:
            pace.saw(len(y))


def main() -> None:
    args = kit.settings(ZOO, threads=2)
    model = nn.Sequential(
        nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10),
    )  # fmt: skip
    model.share_memory()
    other = torch.multiprocessing.get_context("spawn").Process(target=train, args=(model, args.threads, None))
    other.start()
    train(model, args.threads, kit.Pace())
    other.join()


if __name__ == "__main__":
    main()
