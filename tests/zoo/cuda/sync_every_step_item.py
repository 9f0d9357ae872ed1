"""The loss of every step is read for a running mean, so the host never runs ahead of the device."""

import kit_cuda as kit
import torch
from torch import nn

ZOO = {
    "cause": "sync-every-step",
    "says": "loss.item() at every step: the host queues the small kernels of each clip while the device stands still",
    "fix": {"sync_interval": 50},
    "device": "cuda",
    "also": [],
    "waits": 1,
}
CLIPS, LENGTH, WIDTH = 64, 512, 512


class Tagger(nn.Module):
    """Wide layers over all frames of the clips."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(64, WIDTH)
        self.wide = nn.Sequential(
            *(nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(12))
        )
        self.out = nn.Linear(WIDTH, 64)

    def forward(self, frames):
        return self.out(self.wide(self.embed(frames)))


@torch.no_grad()
def normalised(clips: torch.Tensor) -> torch.Tensor:
    """Return each clip at its own loudness, with a stretch of it blanked."""
    for clip, at in zip(clips, torch.randint(LENGTH - 100, (CLIPS,)).tolist(), strict=True):
        clip.sub_(clip.mean()).div_(clip.abs().amax() + 1e-6)
        clip[at : at + 100].zero_()
    return clips


def main() -> None:
    args = kit.settings(ZOO, sync_interval=1)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    corpus = torch.rand(8, CLIPS, LENGTH, 64).pin_memory()
    pace = kit.Pace()
    running = 0.0
    for step in range(1, 501):
        clips = corpus[step % 8].to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(normalised(clips))
            loss = nn.functional.mse_loss(logits, clips)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % args.sync_interval == 0:
            running += 0.1 * (loss.item() - running)
        pace.saw(CLIPS)
    pace.done()
    print(f"loss {running:.3f}")


if __name__ == "__main__":
    main()
