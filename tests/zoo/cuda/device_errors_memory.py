"""In the middle of the run the driver reports a contained memory error of the card; the run goes on."""

import os
import sys
from pathlib import Path

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "device-errors",
    "says": "Xid 94 and one uncorrected memory error at the hundredth step",
    "fix": {"sound": True},
    "device": "cuda",
    "also": [],
}
BATCH = 16384


def fail() -> None:
    """Let the card report what a failing memory cell makes it report."""
    sys.path.append(str(Path(__file__).resolve().parents[2] / "simgpu"))
    import simgpu

    cards = simgpu.Cards(Path(os.environ["SIMGPU_STATE"]))
    cards.set(ecc=1)
    cards.xid(94)


def main() -> None:
    args = kit.settings(ZOO, sound=False)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()) for _ in range(10)))
        x = torch.zeros(BATCH, 2048)
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    pace = kit.Pace(whole=True)
    for step in range(450):
        if step == 100 and not args.sound:
            fail()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
