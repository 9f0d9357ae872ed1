"""Large batches that fit, and a dataset that keeps what it has read: memory grows in the first epoch, no further."""

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "batches of 6 MB, and 220 MB of samples kept in the first of several epochs",
    "fix": {},
    "device": "none",
    "also": [],
}


class Kept(Dataset):
    """Samples that are made once and then kept."""

    def __init__(self) -> None:
        self.cache: dict[int, torch.Tensor] = {}

    def __len__(self) -> int:
        return 16 * 36

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index not in self.cache:
            self.cache[index] = torch.full((96_000,), index / 576)
        return self.cache[index], index % 4


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    loader = DataLoader(Kept(), batch_size=16, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(96_000, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    pace = kit.Pace()
    for _epoch in range(6):
        for rows, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), labels).backward()
            optimizer.step()
            pace.saw(len(labels))


if __name__ == "__main__":
    main()
