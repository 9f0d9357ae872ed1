"""Each step prints its loss, which has to be fetched for it; the next step is queued only when all is done."""

import sys

import kit_cuda as kit
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ZOO = {
    "cause": "sync-every-step",
    "says": "print(loss) at every step of a GAN: two optimizers' launches wait for the device each time",
    "fix": {"sync_interval": 100},
    "device": "cuda",
    "also": [],
    "waits": 2,
}
BATCH, NOISE = 128, 100


def generator() -> nn.Sequential:
    up = nn.ConvTranspose2d
    return nn.Sequential(
        up(NOISE, 1024, 8), nn.BatchNorm2d(1024), nn.ReLU(),
        up(1024, 256, 4, 2, 1), nn.BatchNorm2d(256), nn.ReLU(),
        up(256, 128, 4, 2, 1), nn.BatchNorm2d(128), nn.ReLU(), up(128, 3, 4, 2, 1), nn.Tanh(),
    )  # fmt: skip


def discriminator() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 256, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(256, 1024, 4, 2, 1), nn.BatchNorm2d(1024),
        nn.LeakyReLU(0.2), nn.Conv2d(1024, 1024, 4, 2, 1), nn.BatchNorm2d(1024), nn.LeakyReLU(0.2),
        nn.Conv2d(1024, 1, 4), nn.Flatten(),
    )  # fmt: skip


def jittered(faces: torch.Tensor) -> torch.Tensor:
    """Return each face a little brighter or darker, and shifted."""
    by = torch.rand(len(faces)).tolist()
    return torch.stack([(face * (0.8 + 0.4 * b)).roll(int(8 * b), -1) for face, b in zip(faces, by, strict=True)])


def main() -> None:
    args = kit.settings(ZOO, sync_interval=1)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        g, d = generator(), discriminator()
    of_g = torch.optim.Adam(g.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
    of_d = torch.optim.Adam(d.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
    faces = TensorDataset(torch.rand(BATCH, 3, 64, 64).repeat(4, 1, 1, 1))
    loader = DataLoader(faces, BATCH, shuffle=True, drop_last=True, pin_memory=True)
    scaler = torch.amp.GradScaler("cuda")
    pace, step = kit.Pace(), 0
    for _epoch in range(90):
        for (real,) in loader:
            step += 1
            real = jittered(real.to("cuda", non_blocking=True))
            with torch.autocast("cuda", torch.float16):
                fake = g(torch.randn(BATCH, NOISE, 1, 1, device="cuda"))
                loss_d = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
            of_d.zero_grad()
            scaler.scale(loss_d).backward()
            scaler.step(of_d)
            with torch.autocast("cuda", torch.float16):
                loss_g = F.softplus(-d(fake)).mean()
            of_g.zero_grad()
            scaler.scale(loss_g).backward()
            scaler.step(of_g)
            scaler.update()
            if step % args.sync_interval == 0:
                print(f"step {step} d {loss_d:.3f} g {loss_g:.3f}", file=sys.stderr)
            pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
