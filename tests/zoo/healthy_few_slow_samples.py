"""One recording in forty batches is longer than the others, and the queue hides it: another order gains nothing."""

import time

import kit
import torch
from simnet import SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "batches of 20 ms, each fortieth of 90 ms, four workers, steps of 24 ms on the device",
    "fix": {},
    "device": "sim",
    "also": [],
}


class Recordings(Dataset):
    def __len__(self):
        return 320 * 12

    def __getitem__(self, i):
        number, place = divmod(i, 12)
        if place == 0:
            time.sleep(0.09 if number % 40 == 33 else 0.02)
        return torch.randn(600), float(i % 3)


def main():
    args = kit.settings(ZOO, num_workers=4, in_order=True)
    torch.set_num_threads(1)
    data = DataLoader(Recordings(), batch_size=12, num_workers=args.num_workers, in_order=args.in_order)
    net = SimNet(per_sample=0.002)
    sgd = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    pace = kit.Pace()
    for sound, _target in data:
        loss = net(sound)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        net.wait()
        pace.saw(len(sound))


if __name__ == "__main__":
    main()
