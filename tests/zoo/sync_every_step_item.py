"""The loss of every step is read for a running mean: host and device work in turns."""

import kit
import torch
from simnet import GIB, SimNet
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "sync-every-step",
    "says": "loss.item() at every step: 8 ms of launching, 12 ms on the device, one after the other for the most part",
    "fix": {"sync_interval": 50},
    "device": "sim",
    "prefix": ["env", "GPUTUNE_GUEST_SYNC=1"],
    "also": [],
}


def main() -> None:
    args = kit.settings(ZOO, sync_interval=1)
    torch.set_num_threads(1)
    net = SimNet(per_sample=0.012 / 16, kernels=200, memory=60 * GIB, launching=0.008, awaited=True)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.zeros(16 * 500, 128)), 16, shuffle=True, num_workers=1)
    pace = kit.Pace()
    mean = 0.0
    for step, (x,) in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = net(x)
        loss.backward()
        optimizer.step()
        if step % args.sync_interval == 0:
            mean += 0.1 * (loss.item() - mean)
        pace.saw(len(x))
    net.wait()
    pace.saw(0)


if __name__ == "__main__":
    main()
