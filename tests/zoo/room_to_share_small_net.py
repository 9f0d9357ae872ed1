"""Nothing is wrong: a small network whose every step ends in a decision of the host, on a card that is hardly used."""

import time

import kit
import torch
from simnet import SimNet
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "room-to-share",
    "says": "5 ms on the device of 25; the rest of each step waits for a simulator that cannot be hurried",
    "fix": {"alone": True},
    "device": "sim",
    "also": [],
}


def main() -> None:
    kit.settings(ZOO, alone=False)  # there is nothing to mend: the twin is the same
    torch.set_num_threads(1)
    net = SimNet(per_sample=0.005 / 8)
    optimizer = torch.optim.Adam(net.parameters())
    pace = kit.Pace()
    for (x,) in DataLoader(TensorDataset(torch.zeros(8 * 400, 32)), 8, num_workers=1):
        loss = net(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.019)
        pace.saw(len(x))
    net.wait()
    pace.saw(0)


if __name__ == "__main__":
    main()
