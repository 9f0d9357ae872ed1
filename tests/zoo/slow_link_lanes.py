"""Four lanes of sixteen: each batch's copy takes as long as the kernels; the twin's card has all of its lanes."""

import kit
import torch
from simnet import GIB, SimNet
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "slow-link",
    "says": "72 MB a step over four lanes of PCIe 4.0 instead of sixteen: 11 ms instead of 3, and nothing hides it",
    "fix": {},
    "device": "sim",
    "card": ["--set", "gen=4", "--set", "gen_max=4", "--set", "width=4", "--set", "rate_pinned=6700000000"],
    "also": [],
}


class FromHost(SimNet):
    """A network that moves its pictures to the card by itself, from a page-locked buffer."""

    def forward(self, batch):
        self.card.copy_h2d(72_000_000, pinned=True)
        return super().forward(batch)


def main() -> None:
    kit.settings(ZOO)
    torch.set_num_threads(1)
    net = FromHost(per_sample=0.018 / 32, memory=60 * GIB)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.zeros(32 * 280, 64)), 32, num_workers=1)
    pace = kit.Pace()
    for (x,) in loader:
        loss = net(x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(x))
    net.wait()
    pace.saw(0)


if __name__ == "__main__":
    main()
