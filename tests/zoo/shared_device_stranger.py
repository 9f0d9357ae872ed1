"""Somebody else's process works on the same card; the twin has the card to itself."""

import kit
import torch
from simnet import SimNet
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "shared-device",
    "says": "a stranger that keeps the card busy 60 % of the time when alone",
    "fix": {},
    "device": "sim",
    "card": ["--stranger", "0.6"],
    "also": [],
}


class Zeros(Dataset):
    def __len__(self) -> int:
        return 24 * 260

    def __getitem__(self, index):
        return torch.zeros(3, 32, 32), index % 10


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    net = SimNet(per_sample=0.001)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(Zeros(), 24, num_workers=1)
    pace = kit.Pace()
    for images, _labels in loader:
        optimizer.zero_grad()
        net(images).backward()
        optimizer.step()
        net.wait()
        pace.saw(len(images))


if __name__ == "__main__":
    main()
