"""Each step takes `next(iter(loader))`, as many do for one batch: workers are started for it, and stopped after it."""

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "worker-restart",
    "says": "an iterator with 2 workers for each of 120 steps; the twin has one iterator for all of them",
    "fix": {"one_iterator": True},
    "device": "none",
    "also": [],
}
STEPS = 120


class Waves(Dataset):
    def __len__(self) -> int:
        return 16 * 2 * STEPS

    def __getitem__(self, index):
        return torch.sin(torch.arange(256) * (index % 97) / 40), torch.tensor(index % 97 / 97)


args = kit.settings(ZOO, num_workers=2, one_iterator=False)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.Tanh(), torch.nn.Linear(1024, 1))
adam = torch.optim.Adam(net.parameters(), lr=1e-3)
loader = DataLoader(Waves(), batch_size=16, shuffle=True, num_workers=args.num_workers)
pace = kit.Pace()
batches = iter(loader) if args.one_iterator else None
for _step in range(STEPS):
    waves, wanted = next(batches) if batches else next(iter(loader))
    adam.zero_grad()
    torch.nn.functional.mse_loss(net(waves).squeeze(1), wanted).backward()
    adam.step()
    pace.saw(len(wanted))
