"""Spawned workers import everything anew at each epoch, and the epochs take hardly longer than that."""

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "worker-restart",
    "says": "multiprocessing_context='spawn', 2 workers, epochs of about 1.5 s, persistent_workers=False",
    "fix": {"persistent_workers": True},
    "device": "none",
    "also": [],
}


class Rows(Dataset):
    def __len__(self) -> int:
        return 64 * 90

    def __getitem__(self, index):
        return torch.arange(1024, dtype=torch.float32).sub(index).sin(), index % 3


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, persistent_workers=False)
    torch.set_num_threads(1)
    net = torch.nn.Sequential(torch.nn.Linear(1024, 768), torch.nn.ReLU(), torch.nn.Linear(768, 3))
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-4)
    loader = DataLoader(
        Rows(), 64, num_workers=args.num_workers, multiprocessing_context="spawn",
        persistent_workers=args.persistent_workers,
    )  # fmt: skip
    pace = kit.Pace()
    for _ in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            pace.saw(x.shape[0])


if __name__ == "__main__":
    main()
