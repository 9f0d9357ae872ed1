"""A device that is busy a fifth of the time: one worker fetches from a store and decodes."""

import time

import kit
import torch
from simnet import SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "few-workers",
    "says": "4 ms of waiting and 0.3 ms of CPU per sample, num_workers=1, steps of 16 ms on the device",
    "fix": {"num_workers": 6},
    "device": "sim",
    "also": [],
}


class Photos(Dataset):
    def __len__(self) -> int:
        return 16 * 150

    def __getitem__(self, index):
        time.sleep(0.004)
        kit.burn(0.0003)
        return torch.zeros(3, 64, 64), index % 10


def main() -> None:
    args = kit.settings(ZOO, num_workers=1)
    torch.set_num_threads(1)
    net = SimNet(per_sample=0.001)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(Photos(), batch_size=16, shuffle=True, num_workers=args.num_workers)
    pace = kit.Pace()
    for step, (images, _labels) in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = net(images)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            net.wait()
        pace.saw(len(images))
    net.wait()
    pace.saw(0)


if __name__ == "__main__":
    main()
