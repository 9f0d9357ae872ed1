"""Healthy: a generator and a discriminator in turns, with an optimizer each, in half precision and with one scaler."""

import kit_cuda as kit
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": None,
    "says": "22 ms on the device, 8 of the host; losses are summed up on the device and told at the end of the epoch",
    "fix": {},
    "device": "cuda",
    "also": [],
}
BATCH, NOISE, WIDE = 224, 128, 512


class Faces(Dataset):
    def __len__(self):
        return BATCH * 110

    def __getitem__(self, index):
        return torch.full((3, 64, 64), index % 256, dtype=torch.uint8)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.start = nn.Linear(NOISE, WIDE * 16)
        self.ups = nn.ModuleList(nn.ConvTranspose2d(WIDE, WIDE, 4, 2, 1) for _ in range(3))
        self.colour = nn.ConvTranspose2d(WIDE, 3, 4, 2, 1)

    def forward(self, z):
        x = self.start(z).view(-1, WIDE, 4, 4)
        for up in self.ups:
            x = up(x).relu()
        return self.colour(x).tanh()


def discriminator():
    down = [nn.Sequential(nn.Conv2d(WIDE, WIDE, 4, 2, 1), nn.LeakyReLU(0.2)) for _ in range(3)]
    return nn.Sequential(nn.Conv2d(3, WIDE, 4, 2, 1), nn.LeakyReLU(0.2), *down, nn.Flatten(), nn.Linear(WIDE * 16, 1))


def main():
    args = kit.settings(ZOO, num_workers=2)
    torch.set_num_threads(1)
    g, d = Generator().cuda(), discriminator().cuda()
    of_g = torch.optim.Adam(g.parameters(), lr=1e-4, fused=True)
    of_d = torch.optim.Adam(d.parameters(), lr=4e-4, fused=True)
    scaler = torch.amp.GradScaler()
    loader = DataLoader(Faces(), BATCH, num_workers=args.num_workers, pin_memory=True, persistent_workers=True)
    pace = kit.Pace()
    for _epoch in range(3):
        lost = torch.zeros((), device="cuda")
        for real in loader:
            real = real.cuda(non_blocking=True) / 127.5 - 1
            with torch.autocast("cuda", torch.float16):
                fake = g(torch.randn(len(real), NOISE, device="cuda"))
                loss_d = F.relu(1 - d(real)).mean() + F.relu(1 + d(fake.detach())).mean()
            of_d.zero_grad()
            scaler.scale(loss_d).backward()
            scaler.step(of_d)
            with torch.autocast("cuda", torch.float16):
                loss_g = -d(fake).mean()
            of_g.zero_grad()
            scaler.scale(loss_g).backward()
            scaler.step(of_g)
            scaler.update()
            lost += loss_d.detach()
            pace.saw(len(real))
        print(f"discriminator {lost.item() / len(loader):.3f}")
    pace.done()


if __name__ == "__main__":
    main()
