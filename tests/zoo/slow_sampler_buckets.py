"""Sentences are put into batches of like length by a sampler that sorts all of them anew for each batch."""

import random

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "slow-sampler",
    "says": "24,000 lengths are sorted in the training process for each batch; two workers have little to do",
    "fix": {"sort_once": True},
    "device": "none",
    "also": [],
}
BATCH, BATCHES = 32, 240


class Sentences(Dataset):
    def __init__(self) -> None:
        draw = random.Random(3)
        self.lengths = [draw.randint(8, 64) for _ in range(24_000)]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, index):
        words = torch.full((64,), index % 997)
        words[self.lengths[index] :] = 0
        return words, index % 4


class OfLikeLength:
    def __init__(self, lengths: list[int], *, once: bool) -> None:
        self.lengths, self.once = lengths, once

    def __len__(self):
        return BATCHES

    def __iter__(self):
        order: list[int] = []
        for number in range(BATCHES):
            if not order or not self.once:
                order = sorted(range(len(self.lengths)), key=lambda i: (self.lengths[i], i * 7919 % 24_001))
            yield order[number * BATCH : (number + 1) * BATCH]


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, sort_once=False)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = Sentences()
    model = torch.nn.Sequential(
        torch.nn.Embedding(1000, 64), torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 4)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    sampler = OfLikeLength(data.lengths, once=args.sort_once)
    pace = kit.Pace()
    for words, labels in DataLoader(data, batch_sampler=sampler, num_workers=args.num_workers):
        loss = torch.nn.functional.cross_entropy(model(words).mean(dim=1), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(labels))


if __name__ == "__main__":
    main()
