"""Hundreds of small kernels a step take longer to launch than to run, and the memory is full: no larger batch fits."""

import kit
import torch
from simnet import GIB, SimNet
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "host-bound",
    "says": "14 ms of Python for 400 kernels, run in 5 ms; compiled, a quarter of both",
    "fix": {"fused": True},
    "device": "sim",
    "also": [],
}


def main() -> None:
    args = kit.settings(ZOO, fused=False)
    torch.set_num_threads(1)
    part = 0.25 if args.fused else 1.0
    net = SimNet(per_sample=0.005 / 24, kernels=round(400 * part), memory=60 * GIB, launching=0.014 * part)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(torch.zeros(24 * 600, 96)), batch_size=24, num_workers=1)
    pace = kit.Pace()
    for (x,) in loader:
        loss = net(x)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        pace.saw(len(x))
    net.wait()
    pace.saw(0)


if __name__ == "__main__":
    main()
