"""A recurrent cell in a Python loop over 48 moments: kernels of microseconds, each launched by hand."""

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "host-bound",
    "says": "the device is done with each kernel before the next one is launched; as a CUDA graph it is one launch",
    "fix": {"graphed": True},
    "device": "cuda",
    "also": [],
}
BATCH, MOMENTS, WIDTH = 256, 48, 256


class Cell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen, self.kept = nn.Linear(32, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(BATCH, WIDTH, device=series.device)
        for moment in self.seen(series).unbind(1):
            reset, update, new = (moment + self.kept(state)).chunk(3, 1)
            update = torch.sigmoid(update)
            state = update * state + (1 - update) * torch.tanh(torch.sigmoid(reset) * new)
        return self.out(state)


def main() -> None:
    args = kit.settings(ZOO, graphed=False)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = Cell()
        held = torch.zeros(BATCH, MOMENTS, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
    forward = torch.cuda.make_graphed_callables(model, (held,)) if args.graphed else model
    series = torch.zeros(2, BATCH, MOMENTS, 32).pin_memory()
    wanted = torch.zeros(BATCH, 1, device="cuda")
    pace = kit.Pace()
    for step in range(600):
        held.copy_(series[step % 2], non_blocking=True)
        loss = nn.functional.mse_loss(forward(held), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
