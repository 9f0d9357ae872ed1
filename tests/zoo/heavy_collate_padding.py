"""Sentences are Python lists of rows, padded row by row in collate_fn and turned into a tensor number by number."""

import random

import kit
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "heavy-collate",
    "says": "48 sentences of some 40 rows of 24 numbers are padded as lists of lists, by one worker",
    "fix": {"arrays": True},
    "device": "none",
    "also": ["few-workers", "heavy-preprocessing"],
}
WIDTH = 24


class Sentences(Dataset):
    def __init__(self, count: int, *, arrays: bool) -> None:
        draw = random.Random(7)
        self.rows = [[[draw.random() for _ in range(WIDTH)] for _ in range(draw.randint(20, 60))] for _ in range(512)]
        if arrays:
            self.rows = [np.array(rows, dtype=np.float32) for rows in self.rows]
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.rows[index % len(self.rows)], index % 5


def pad_lists(items):
    longest = max(len(rows) for rows, _ in items)
    padded = []
    for rows, _ in items:
        padded.append([[float(x) for x in row] for row in rows] + [[0.0] * WIDTH] * (longest - len(rows)))
    return torch.tensor(padded), torch.tensor([label for _, label in items])


def pad_arrays(items):
    padded = np.zeros((len(items), max(len(rows) for rows, _ in items), WIDTH), dtype=np.float32)
    for place, (rows, _) in zip(padded, items, strict=True):
        place[: len(rows)] = rows
    return torch.from_numpy(padded), torch.tensor([label for _, label in items])


def main() -> None:
    args = kit.settings(ZOO, num_workers=1, arrays=False)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(WIDTH, 64), torch.nn.ReLU(), torch.nn.Linear(64, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = DataLoader(
        Sentences(48 * 240, arrays=args.arrays),
        batch_size=48,
        shuffle=True,
        num_workers=args.num_workers,
        collate_fn=pad_arrays if args.arrays else pad_lists,
    )
    pace = kit.Pace()
    for sentences, labels in loader:
        loss = torch.nn.functional.cross_entropy(model(sentences).mean(dim=1), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(labels))


if __name__ == "__main__":
    main()
