"""Healthy: the loss is read at every step, and the device is busy nearly all the time all the same."""

import kit
import torch
from simnet import GIB, SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "steps of 30 ms on the device, a result read at each, workers that keep up",
    "fix": {},
    "device": "sim",
    "also": [],
}


class Clips(Dataset):
    def __len__(self) -> int:
        return 12 * 260

    def __getitem__(self, index):
        kit.burn(0.0008)
        return torch.zeros(1024), index % 4


def main() -> None:
    args = kit.settings(ZOO, num_workers=2)
    torch.set_num_threads(1)
    net = SimNet(per_sample=0.0025, kernels=90, memory=30 * GIB)
    optimizer = torch.optim.Adam(net.parameters())
    loader = DataLoader(Clips(), batch_size=12, shuffle=True, num_workers=args.num_workers)
    pace = kit.Pace()
    losses = []
    for clips, _labels in loader:
        loss = net(clips)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        net.wait()
        losses.append(loss.item())
        pace.saw(len(clips))


if __name__ == "__main__":
    main()
