"""Every sample is fetched from a slow store while the training waits for it: no workers at all."""

import time

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "few-workers",
    "says": "2 ms of waiting per sample, num_workers=0",
    "fix": {"num_workers": 6},
    "device": "none",
    "also": [],
}


class SlowStore(Dataset):
    def __len__(self) -> int:
        return 16 * 260

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(0.002)
        return torch.full((1024,), index / 4160), index % 10


def main() -> None:
    args = kit.settings(ZOO, num_workers=0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(SlowStore(), batch_size=16, shuffle=True, num_workers=args.num_workers)
    pace = kit.Pace()
    for features, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(labels))


if __name__ == "__main__":
    main()
