"""Healthy: the same network in 16 bits; tensor cores work for a third of the time, as they do in a real one."""

import kit
import torch
from simnet import GIB, SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "15 ms of kernels a step under autocast, tensor cores at work for a third of it",
    "fix": {},
    "device": "sim",
    "also": [],
}


class Sequences(Dataset):
    def __len__(self) -> int:
        return 6 * 500

    def __getitem__(self, index):
        return torch.arange(index, index + 256)


kit.settings(ZOO)
torch.set_num_threads(1)
net = SimNet(0.015 / 6, memory=20 * GIB, tensor=0.33)
optimizer = torch.optim.AdamW(net.parameters())
pace = kit.Pace()
for step, tokens in enumerate(DataLoader(Sequences(), batch_size=6, num_workers=1, shuffle=True)):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = net(tokens)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        net.wait()
    pace.saw(len(tokens))
net.wait()
pace.saw(0)
