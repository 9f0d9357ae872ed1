"""The whole validation set is gone through every ten steps."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "frequent-eval",
    "says": "a pass over 30 validation batches every 10 training steps",
    "fix": {"eval_interval": 200},
    "device": "none",
    "also": [],
}


@torch.no_grad()
def validate(model: torch.nn.Module, loader: DataLoader) -> float:
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def blobs(count: int) -> TensorDataset:
    labels = torch.randint(0, 10, (count,))
    return TensorDataset(torch.randn(count, 784) + labels[:, None] / 10, labels)


def main() -> None:
    args = kit.settings(ZOO, eval_interval=10)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 800), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Linear(800, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    train, valid = DataLoader(blobs(64 * 1000), 64, shuffle=True), DataLoader(blobs(64 * 30), 64)
    pace = kit.Pace()
    for step, (x, y) in enumerate(train, 1):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.eval_interval == 0:
            validate(model, valid)
        pace.saw(len(y))


if __name__ == "__main__":
    main()
