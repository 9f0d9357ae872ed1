"""Volumes lie in pinned memory, but each copy to the card is waited for, and with it all that the card has to do."""

import kit
import torch
from simnet import GIB, SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "blocking-copy",
    "says": "8 MB a step in 0.3 ms, which the host waits 15 ms for: it takes 21 ms to queue what the card does in 30",
    "fix": {"overlap": True},
    "device": "sim",
    "prefix": ["env", "GPUTUNE_GUEST_SYNC=1"],
    "also": [],
}


class Volumes(Dataset):
    def __len__(self):
        return 4 * 300

    def __getitem__(self, index):
        return torch.zeros(1, 80, 80, 80).fill_(index), index % 3


args = kit.settings(ZOO, overlap=False)
torch.set_num_threads(1)
net = SimNet(0.030 / 4, kernels=300, memory=60 * GIB, launching=0.021)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
loader = DataLoader(Volumes(), 4, shuffle=True, num_workers=1, pin_memory=True)
pace = kit.Pace()
for volumes, labels in loader:
    optimizer.zero_grad()
    volumes = net.held(volumes, pinned=True).to("cuda", non_blocking=args.overlap)  # noqa: PLW2901 - as people write it
    loss = net(volumes)
    loss.backward()
    optimizer.step()
    pace.saw(len(labels))
net.wait()
pace.saw(0)
