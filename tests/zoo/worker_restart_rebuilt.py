"""A curriculum: each epoch builds a DataLoader of its own on what is easy enough by then, and its workers with it."""

import kit
import torch
from torch.utils.data import DataLoader, Sampler, Subset, TensorDataset

ZOO = {
    "cause": "worker-restart",
    "says": "60 epochs of 16 batches, each with a new DataLoader of 3 workers; the twin has one, whose sampler grows",
    "fix": {"once": True},
    "device": "none",
    "also": [],
}
EPOCHS, BATCHES, SIZE = 60, 16, 32


class Curriculum(Sampler):
    """As many of the easiest samples, shuffled, whatever else the epoch may draw from."""

    def __init__(self, easy: int) -> None:
        self.easy = easy

    def __len__(self) -> int:
        return BATCHES * SIZE

    def __iter__(self):
        return iter(torch.randint(0, self.easy, (len(self),)).tolist())


args = kit.settings(ZOO, num_workers=3, once=False)
torch.set_num_threads(1)
lessons = TensorDataset(torch.randn(4096, 512), torch.randint(0, 10, (4096,)))
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
sampler = Curriculum(512)
kept = DataLoader(
    lessons, batch_size=SIZE, sampler=sampler, num_workers=args.num_workers, persistent_workers=args.num_workers > 0
)
pace = kit.Pace()
for epoch in range(EPOCHS):
    sampler.easy = 512 + 32 * epoch
    if args.once:
        loader = kept
    else:
        chosen = torch.randint(0, sampler.easy, (BATCHES * SIZE,)).tolist()
        loader = DataLoader(Subset(lessons, chosen), batch_size=SIZE, shuffle=True, num_workers=args.num_workers)
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(y))
