"""The forward pass goes through the molecules of a batch one by one: a thousand launches, or a CUDA graph."""

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "host-bound",
    "says": "a Python loop over 64 graphs of 32 atoms, three small products for each",
    "fix": {"graphed": True},
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

    def forward(self, atoms: torch.Tensor, bonds: torch.Tensor) -> torch.Tensor:
        seen = torch.stack([self.message(a, b) for a, b in zip(atoms, bonds, strict=True)])
        return self.energy(self.wide(seen)).sum((1, 2))


def main() -> None:
    args = kit.settings(ZOO, graphed=False)
    torch.set_num_threads(1)
    device = "cuda"
    network = Network().to(device)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    atoms = torch.rand(GRAPHS, ATOMS, WIDTH, device=device)
    bonds = torch.ones(GRAPHS, ATOMS, ATOMS, device=device)
    truth = torch.zeros(GRAPHS, device=device)
    with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        forward = torch.cuda.make_graphed_callables(network, (atoms, bonds)) if args.graphed else network
    pace = kit.Pace()
    for _step in range(400):
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=not args.graphed):
            loss = nn.functional.l1_loss(forward(atoms, bonds), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(GRAPHS)
    pace.done()


if __name__ == "__main__":
    main()
