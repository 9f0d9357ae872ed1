"""The forward pass goes through the molecules of a batch one by one; padded, they would be one batch of matrices."""

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "host-bound",
    "says": "a Python loop over 64 graphs of 30 atoms, three small products for each",
    "fix": {"padded": True},
    "device": "cuda",
    "also": [],
}
GRAPHS, ATOMS, WIDTH = 64, 32, 128


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.wide = nn.Sequential(nn.Linear(WIDTH, 8192), nn.ReLU(), nn.Linear(8192, 8192), nn.ReLU())
        self.energy = nn.Linear(8192, 1)

    def message(self, atoms: torch.Tensor, bonds: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            atoms = torch.relu(layer(torch.matmul(bonds, atoms)))
        return atoms

    def forward(self, atoms: torch.Tensor, bonds: torch.Tensor, *, padded: bool) -> torch.Tensor:
        if padded:
            seen = self.message(atoms, bonds)
        else:
            seen = torch.stack([self.message(a, b) for a, b in zip(atoms, bonds, strict=True)])
        return self.energy(self.wide(seen)).sum((1, 2))


def main() -> None:
    args = kit.settings(ZOO, padded=False)
    torch.set_num_threads(1)
    device = "cuda"
    network = Network().to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    atoms = torch.rand(GRAPHS, ATOMS, WIDTH, device=device)
    bonds = torch.ones(GRAPHS, ATOMS, ATOMS, device=device)
    truth = torch.zeros(GRAPHS, device=device)
    pace = kit.Pace()
    for _step in range(400):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.l1_loss(network(atoms, bonds, padded=args.padded), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(GRAPHS)
    pace.done()


if __name__ == "__main__":
    main()
