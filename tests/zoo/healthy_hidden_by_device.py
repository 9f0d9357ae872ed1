"""Healthy: next() often waits a little, but the device has work queued and never notices."""

import time

import kit
import torch
from simnet import SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "the host runs ahead of a device that is busy all the time; loader waits are hidden",
    "fix": {},
    "device": "sim",
    "also": [],
}


class Files(Dataset):
    def __len__(self) -> int:
        return 16 * 320

    def __getitem__(self, index):
        if index % 16 == 0:
            time.sleep(0.08 if index // 16 % 5 == 0 else 0.02)
        return torch.zeros(3, 32, 32), index % 10


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, prefetch_factor=2)
    torch.set_num_threads(1)
    net = SimNet(per_sample=0.028 / 16, kernels=180)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(Files(), 16, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor)
    pace = kit.Pace()
    for step, (images, _labels) in enumerate(loader, 1):
        loss = net(images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            net.wait()
        pace.saw(len(images))
    net.wait()
    pace.saw(0)


if __name__ == "__main__":
    main()
