"""One worker reads from an object store whose answers take anything from 1 to 20 ms; six would hide it."""

import random
import time

import kit
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "few-workers",
    "says": "log-normal waits of 3 ms per sample, num_workers=1",
    "fix": {"num_workers": 6},
    "device": "none",
    "also": [],
}
BATCH = 8


class Bucket(Dataset):
    """Objects of one kind, answered like a store does: mostly soon, now and then late."""

    def __init__(self, objects: int) -> None:
        self.objects = objects

    def __getitem__(self, index):
        time.sleep(min(0.02, random.Random(index).lognormvariate(-6.05, 0.7)))
        return {"image": torch.zeros(3, 48, 48), "target": torch.tensor(index % 5)}

    def __len__(self):
        return self.objects


args = kit.settings(ZOO, num_workers=1, prefetch_factor=2)
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 12, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
    torch.nn.Linear(12, 5),
)  # fmt: skip
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
batches = DataLoader(
    Bucket(BATCH * 360), batch_size=BATCH, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor
)
pace = kit.Pace()
for batch in batches:
    loss = F.cross_entropy(net(batch["image"]), batch["target"])
    loss.backward()
    opt.step()
    opt.zero_grad()
    pace.saw(BATCH)
