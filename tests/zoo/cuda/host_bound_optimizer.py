"""An optimizer that goes through 246 parameters one by one: the host launches, and the device waits for launches."""

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "host-bound",
    "says": "Adam with foreach=False: a dozen kernels of microseconds for each of 246 parameters",
    "fix": {"foreach": True},
    "device": "cuda",
    "also": [],
}
ROWS, WIDTH = 4096, 64


class Towers(nn.Module):
    """120 small towers, one for each field of a record; batched, as their weights are stacked."""

    def __init__(self, fields: int = 120) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(WIDTH, WIDTH) / 8) for _ in range(fields))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(WIDTH)) for _ in range(fields))
        self.mix = nn.Linear(fields * WIDTH, 2048)
        self.score = nn.Sequential(nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, biases = torch.stack(list(self.weights)), torch.stack(list(self.biases))
        seen = torch.baddbmm(biases.unsqueeze(1), x, weights)
        return self.score(self.mix(seen.transpose(0, 1).flatten(1)))


def main() -> None:
    args = kit.settings(ZOO, foreach=False)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = Towers()
        records = torch.randn(120, ROWS, WIDTH)
        clicked = torch.zeros(ROWS, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, foreach=args.foreach)
    pace = kit.Pace()
    for _step in range(480):
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.binary_cross_entropy_with_logits(model(records), clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(ROWS)
    pace.done()


if __name__ == "__main__":
    main()
