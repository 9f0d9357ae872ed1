"""How far up each label was ranked is counted sample by sample, between forward and backward of steps below 1 ms."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "python-in-step",
    "says": "top-k hits of 128 samples in plain Python at every step; the twin counts every 50 steps",
    "fix": {"every": 50},
    "device": "none",
    "also": [],
}
KINDS = 10


def count(hits: list[int], found: torch.Tensor, labels: torch.Tensor) -> None:
    for scores, label in zip(found.tolist(), labels.tolist(), strict=True):
        order = sorted(range(KINDS), key=lambda kind: -scores[kind])
        for place in range(order.index(label), KINDS):
            hits[place] += 1


def main() -> None:
    args = kit.settings(ZOO, every=1)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(25_600, 64), torch.randint(KINDS, (25_600,)))
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, KINDS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    hits, step = [0] * KINDS, 0
    pace = kit.Pace()
    for _epoch in range(50):
        for x, y in DataLoader(data, batch_size=128, shuffle=True):
            found = model(x)
            loss = torch.nn.functional.cross_entropy(found, y)
            if step % args.every == 0:
                count(hits, found.detach(), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            pace.saw(len(y))


if __name__ == "__main__":
    main()
