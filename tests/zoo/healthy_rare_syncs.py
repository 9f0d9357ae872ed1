"""Healthy: the loss is read every fifty steps, and each reading waits for all that was queued since the last one."""

import kit
import torch
from simnet import SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "9 ms of launching beside 20 ms on the device, a loss read every 50 steps",
    "fix": {},
    "device": "sim",
    "prefix": ["env", "GPUTUNE_GUEST_SYNC=1"],
    "also": [],
}


class Rows(Dataset):
    def __len__(self):
        return 8 * 450

    def __getitem__(self, index):
        return torch.full((64,), index / 3600)


kit.settings(ZOO)
torch.set_num_threads(1)
net = SimNet(per_sample=0.020 / 8, kernels=150, launching=0.009, awaited=True)
optimizer = torch.optim.Adam(net.parameters())
pace = kit.Pace()
for step, rows in enumerate(DataLoader(Rows(), batch_size=8, num_workers=1), 1):
    loss = net(rows)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.4f}")
    pace.saw(len(rows))
net.wait()
pace.saw(0)
