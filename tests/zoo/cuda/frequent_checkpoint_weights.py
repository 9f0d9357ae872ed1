"""The whole model is saved every ten steps: its weights come back from the device, one tensor after another."""

import tempfile

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "frequent-checkpoint",
    "says": "50 MB of weights and moments fetched and written every tenth step",
    "fix": {"checkpoint_interval": 100},
    "device": "cuda",
    "also": [],
    "waits": 7.29,
}
FOLDER = tempfile.TemporaryDirectory()
BATCH, WIDTH = 65536, 1024


def save(model: nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write a checkpoint, as a training does that restarts often."""
    torch.save(
        {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, f"{FOLDER.name}/checkpoint.pt"
    )


def main() -> None:
    args = kit.settings(ZOO, checkpoint_interval=10)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.GELU()) for _ in range(4)]
        model = nn.Sequential(*blocks, nn.Linear(WIDTH, 1))
        x = torch.zeros(BATCH, WIDTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    pace = kit.Pace(whole=True)
    for step in range(1, 401):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.checkpoint_interval == 0:
            save(model, optimizer, step)
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
