"""Each epoch reads its index anew: a file of lines that is split, filtered and sorted before the first batch."""

import tempfile
from pathlib import Path

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "work-between-passes",
    "says": "the data set is made out of its file of 60,000 lines for each of the passes; the twin makes it once",
    "fix": {"once": True},
    "device": "none",
    "also": [],
}
LINES, KEPT, PASSES = 60_000, 1280, 25


class Listed(Dataset):
    """The best rows of an index, as it stands in a file."""

    def __init__(self, index: Path) -> None:
        rows = [line.split(",") for line in index.read_text().splitlines()]
        rows.sort(key=lambda row: float(row[1]))
        self.rows = [(int(row[0]), float(row[1])) for row in rows[:KEPT]]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, float]:
        number, score = self.rows[index]
        return torch.full((512,), number / LINES), score


def main() -> None:
    args = kit.settings(ZOO, once=False)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1536), torch.nn.ReLU(), torch.nn.Linear(1536, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index.csv"
        index.write_text("\n".join(f"{n},{n * 7919 % LINES / LINES}" for n in range(LINES)))
        data = Listed(index)
        pace = kit.Pace()
        for _epoch in range(PASSES):
            rows = data if args.once else Listed(index)
            for x, y in DataLoader(rows, batch_size=32, shuffle=True):
                loss = torch.nn.functional.mse_loss(model(x).squeeze(1), y.float())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                pace.saw(len(y))


if __name__ == "__main__":
    main()
