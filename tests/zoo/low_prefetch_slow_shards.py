"""Every tenth batch opens a new shard and takes long; with one batch in the queue the training feels each of them."""

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "low-prefetch",
    "says": "batches of 4 ms, each tenth of 110 ms, steps of some 18 ms, one worker with prefetch_factor=1",
    "fix": {"prefetch_factor": 8},
    "device": "none",
    "also": ["few-workers"],
}
PER_SHARD = 10


class Shards(Dataset):
    def __init__(self, batches: int, batch_size: int) -> None:
        self.batches, self.batch_size = batches, batch_size

    def __len__(self):
        return self.batches * self.batch_size

    def __getitem__(self, index):
        batch, place = divmod(index, self.batch_size)
        if place == 0:
            kit.burn(0.110 if batch % PER_SHARD == PER_SHARD - 1 else 0.004)
        return torch.rand(768), torch.tensor(index % 7)


args = kit.settings(ZOO, num_workers=1, prefetch_factor=1)
torch.set_num_threads(1)
loader = DataLoader(Shards(330, 32), batch_size=32, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor)
layers = [torch.nn.Linear(768, 2048), torch.nn.SiLU(), torch.nn.Linear(2048, 1800), torch.nn.SiLU()]
classifier = torch.nn.Sequential(*layers, torch.nn.Linear(1800, 7))
sgd = torch.optim.SGD(classifier.parameters(), lr=0.05, momentum=0.9)
pace = kit.Pace()
for rows, targets in loader:
    sgd.zero_grad()
    torch.nn.functional.cross_entropy(classifier(rows), targets).backward()
    sgd.step()
    pace.saw(rows.size(0))
