"""Volumes in float32 are more than the one thread of pin_memory=True can page-lock in the time of a step."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "slow-pinning",
    "says": "134 MB a batch, ready in shared memory, to be copied by one thread; 14 ms on the device",
    "fix": {"half": True},
    "device": "cuda",
    "also": [],
}
VOLUMES, SIDE, STEPS = 2, 256, 240
DEEP = max(
    1, round(8 / kit.SLOWER)
)  # a slow host copies memory about as fast as others: its card must be as fast as that


class Scans(Dataset):
    """What another process keeps in shared memory, whole batches of it: a worker but hands them on."""

    def __init__(self, kind: torch.dtype) -> None:
        self.kept = [torch.zeros(VOLUMES, 1, SIDE, SIDE, SIDE, dtype=kind).share_memory_() for _ in range(3)]

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.kept[index % 3]


class Segment(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv3d(1, 256, 8, 8)
        self.body = nn.ModuleList(nn.Conv3d(256, 256, 3, padding=1) for _ in range(DEEP))
        self.guess = nn.Conv3d(256, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x)
        for conv in self.body:
            x = torch.relu(x + conv(x))
        return self.guess(x)


def main() -> None:
    args = kit.settings(ZOO, half=False)
    torch.set_num_threads(1)
    model = Segment().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler()
    scans = Scans(torch.float16 if args.half else torch.float32)
    loader = DataLoader(scans, batch_size=None, num_workers=2, pin_memory=True)
    pace = kit.Pace()
    for volumes in loader:
        x = volumes.to("cuda", non_blocking=True)
        x = x.float() if args.half else x
        with torch.autocast("cuda", torch.float16):
            loss = model(x).float().square().mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        pace.saw(VOLUMES)
    pace.done()


if __name__ == "__main__":
    main()
