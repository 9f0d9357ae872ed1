"""The predictions of every step go to the host for a running accuracy, before the next step is queued."""

import kit_cuda as kit
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "sync-every-step",
    "says": "logits.argmax(1).cpu().numpy() at every step, then 5 ms of counting, beside which nothing is queued",
    "fix": {"sync_interval": 20},
    "device": "cuda",
    "also": [],
    "waits": 1,
}
CLASSES = 12


class Fields(Dataset):
    """Satellite tiles with a class for each pixel."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"tile": torch.full((4, 96, 96), index % 7, dtype=torch.uint8), "mask": torch.full((96, 96), index % 12)}


class UNet(nn.Module):
    def __init__(self, wide: int = 256) -> None:
        super().__init__()
        self.enter = nn.Conv2d(4, wide, 3, padding=1)
        self.down = nn.Conv2d(wide, 2 * wide, 3, stride=2, padding=1)
        self.deep = nn.Sequential(nn.Conv2d(2 * wide, 2 * wide, 3, padding=1), nn.BatchNorm2d(2 * wide), nn.ReLU())
        self.up = nn.ConvTranspose2d(2 * wide, wide, 2, stride=2)
        self.leave = nn.Conv2d(2 * wide, CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fine = self.enter(x).relu()
        coarse = self.deep(self.down(fine).relu())
        return self.leave(torch.cat([fine, self.up(coarse)], 1))


def hits(seen: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return how many pixels of each class were told rightly."""
    return np.array([np.count_nonzero((truth == kind) & (seen == kind)) for kind in range(CLASSES)])


def main() -> None:
    args = kit.settings(ZOO, sync_interval=1)
    torch.set_num_threads(1)
    model = UNet().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    loader = DataLoader(Fields(32 * 700), batch_size=32, num_workers=2, pin_memory=True)
    right = np.zeros(CLASSES, dtype=np.int64)
    pace = kit.Pace()
    for step, batch in enumerate(loader):
        tile, mask = (batch[k].to("cuda", non_blocking=True) for k in ("tile", "mask"))
        with torch.autocast("cuda", dtype=torch.float16):
            logits = model(tile / 255.0)
            loss = nn.functional.cross_entropy(logits, mask)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if step % args.sync_interval == 0:
            right += hits(logits.argmax(1).cpu().numpy(), batch["mask"].numpy())
        pace.saw(len(mask))
    pace.done()


if __name__ == "__main__":
    main()
