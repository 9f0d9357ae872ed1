"""A hundred short epochs, and four workers are started and stopped for each of them."""

import kit
import torch
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "worker-restart",
    "says": "epochs of 12 batches with 4 workers, persistent_workers=False",
    "fix": {"persistent_workers": True},
    "device": "none",
    "also": [],
}


def run_epoch(model, loader, optimizer, pace) -> None:
    model.train()
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(y))


def main() -> None:
    args = kit.settings(ZOO, num_workers=4, persistent_workers=False)
    torch.set_num_threads(1)
    dataset = TensorDataset(torch.randn(12 * 32, 512), torch.randint(0, 10, (12 * 32,)))
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(
        dataset, batch_size=32, shuffle=True, num_workers=args.num_workers, persistent_workers=args.persistent_workers
    )
    pace = kit.Pace()
    for _epoch in range(100):
        run_epoch(model, loader, optimizer, pace)


if __name__ == "__main__":
    main()
