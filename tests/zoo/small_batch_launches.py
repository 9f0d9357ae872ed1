"""Eight samples a step: Python and kernel launches take 7 ms, the device is done after one."""

import kit
import torch
from simnet import GIB, SimNet
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "small-batch",
    "says": "7 ms of launching per step, 0.15 ms per sample on the device, batch_size=8, a result read at every step",
    "fix": {"batch_size": 64},
    "device": "sim",
    "also": [],
}


def main() -> None:
    args = kit.settings(ZOO, batch_size=8)
    torch.set_num_threads(1)
    net = SimNet(per_sample=0.00015, kernels=60, memory=2 * GIB)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.zeros(7200, 64)), args.batch_size, num_workers=1)
    pace = kit.Pace()
    running = 0.0
    for (x,) in loader:
        optimizer.zero_grad()
        loss = net(x)
        kit.burn(0.007)  # what a network of many small layers costs the host
        loss.backward()
        optimizer.step()
        net.wait()
        running += loss.item()
        pace.saw(len(x))


if __name__ == "__main__":
    main()
