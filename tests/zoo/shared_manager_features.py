"""Samples lie in a dictionary of a multiprocessing.Manager, so that all workers can share them."""

import multiprocessing

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "shared-manager",
    "says": "two workers ask a Manager's dictionary for each sample; the twin has a plain one, shared as well",
    "fix": {"served": False},
    "device": "none",
    "also": [],
}
BATCH, SAMPLES = 32, 2000


class Kept(Dataset):
    """Lists of features by number, held in whatever is given."""

    def __init__(self, rows: "dict[int, list[float]]") -> None:
        self.rows = rows

    def __len__(self) -> int:
        return BATCH * 2000

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(self.rows[index % SAMPLES])


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, served=True)
    torch.set_num_threads(1)
    rows = {n: [float(n + k) / SAMPLES for k in range(512)] for n in range(SAMPLES)}
    manager = multiprocessing.Manager() if args.served else None
    kept = manager.dict(rows) if manager else rows
    model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.ReLU(), torch.nn.Linear(512, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loader = DataLoader(Kept(kept), batch_size=BATCH, shuffle=True, num_workers=args.num_workers)
    pace = kit.Pace()
    for batch in loader:
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(batch))


if __name__ == "__main__":
    main()
