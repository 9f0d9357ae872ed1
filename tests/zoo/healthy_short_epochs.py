"""Healthy: many short epochs whose workers persist."""

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "epochs of 20 batches, some 2 ms each to make, persistent workers",
    "fix": {},
    "device": "none",
    "also": [],
}


class Points(Dataset):
    def __len__(self) -> int:
        return 20 * 32

    def __getitem__(self, index):
        return torch.linspace(0, index, 1024).sin().cumsum(0).sort().values, torch.tensor([index / 640])


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, persistent_workers=True)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1536), torch.nn.Tanh(), torch.nn.Linear(1536, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    loader = DataLoader(
        Points(), 32, shuffle=True, num_workers=args.num_workers, persistent_workers=args.persistent_workers
    )
    pace = kit.Pace()
    for _epoch in range(70):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pace.saw(len(y))


if __name__ == "__main__":
    main()
