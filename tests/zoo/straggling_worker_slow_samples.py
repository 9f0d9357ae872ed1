"""One recording in a thousand is very long: its batch holds up all those that are ready behind it."""

import time

import kit
import torch
from simnet import SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "straggling-worker",
    "says": "batches of 20 ms, each eightieth of 3 s, four workers, steps of 15 ms on the device",
    "fix": {"in_order": False},
    "device": "sim",
    "also": ["low-prefetch", "few-workers"],
}
BATCH, LONG = 12, 80


class Recordings(Dataset):
    def __init__(self, batches):
        self.batches = batches

    def __len__(self):
        return self.batches * BATCH

    def __getitem__(self, i):
        number, place = divmod(i, BATCH)
        if place == 0:
            time.sleep(3.0 if number % LONG == 30 else 0.02)
        return torch.randn(600), float(i % 3)


args = kit.settings(ZOO, num_workers=4, prefetch_factor=2, in_order=True)
torch.set_num_threads(1)
data = DataLoader(
    Recordings(400),
    batch_size=BATCH,
    num_workers=args.num_workers,
    prefetch_factor=args.prefetch_factor,
    in_order=args.in_order,
)
net = SimNet(per_sample=0.00125)
sgd = torch.optim.SGD(net.parameters(), lr=1e-3)
pace = kit.Pace()
for sound, _target in data:
    loss = net(sound)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    net.wait()
    pace.saw(len(sound))
