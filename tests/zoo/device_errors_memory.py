"""In the middle of the run the driver reports a contained memory error of the card; the run goes on."""

import os
from pathlib import Path

import kit
import torch
from simnet import SimNet, simgpu
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "device-errors",
    "says": "Xid 94 and one uncorrected memory error at the hundredth step",
    "fix": {"sound": True},
    "device": "sim",
    "also": [],
}


def fail() -> None:
    """Let the card report what a failing memory cell makes it report."""
    cards = simgpu.Cards(Path(os.environ["SIMGPU_STATE"]))
    cards.set(ecc=1)
    cards.xid(94)


def main() -> None:
    args = kit.settings(ZOO, sound=False)
    torch.set_num_threads(1)
    net = SimNet(per_sample=0.022 / 16)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.zeros(16 * 350, 64)), 16, num_workers=1)
    pace = kit.Pace()
    for step, (x,) in enumerate(loader):
        if step == 100 and not args.sound:
            fail()
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
