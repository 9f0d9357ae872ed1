"""Batches of two samples on a host: the optimizer goes over all weights for the sake of two pictures."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "small-batch",
    "says": "AdamW over a million weights for every two samples; the twin takes eight at a time",
    "fix": {"batch_size": 8},
    "device": "none",
    "also": [],
}


def main() -> None:
    args = kit.settings(ZOO, batch_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    pictures, labels = torch.randn(8000, 3, 16, 16), torch.randint(10, (8000,))
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(TensorDataset(pictures, labels), batch_size=args.batch_size, shuffle=True)
    pace = kit.Pace()
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        pace.saw(len(y))


if __name__ == "__main__":
    main()
