"""The card is hot and its clock held at half; the twin runs on a cool one."""

import kit
import torch
from simnet import SimNet
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "device-throttled",
    "says": "hardware thermal slowdown at 990 of 1980 MHz",
    "fix": {},
    "device": "sim",
    "card": ["--set", "throttle=0x40", "--set", "clock_sm=990", "--set", "temperature=91"],
    "also": [],
}


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    net = SimNet(per_sample=0.0005)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.zeros(32 * 250, 256)), 32, shuffle=True, num_workers=1)
    pace = kit.Pace()
    for step, (x,) in enumerate(loader):
        loss = net(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            net.wait()
        pace.saw(len(x))
    net.wait()
    pace.saw(0)


if __name__ == "__main__":
    main()
