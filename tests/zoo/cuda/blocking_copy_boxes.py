"""Pinned batches are copied with a plain .to(), which waits for the copy and for all that was queued before it."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "blocking-copy",
    "says": "nothing is queued beside the device's work; the targets of each picture are many small kernels",
    "fix": {"non_blocking": True},
    "device": "cuda",
    "also": ["sync-every-step"],
    "waits": 2,
}
BATCH, BOXES, CELLS = 64, 12, 32 * 32


class Streets(Dataset):
    def __len__(self) -> int:
        return BATCH * 360

    def __getitem__(self, index):
        return torch.full((3, 128, 128), index % 256, dtype=torch.uint8), torch.rand(BOXES, 4)


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 512, 4, 4), *(nn.Conv2d(512, 512, 3, padding=1) for _ in range(5)))
        self.head = nn.Conv2d(512, 4, 1)

    def forward(self, x):
        return self.head(self.body(x)).flatten(2).transpose(1, 2)


@torch.no_grad()
def targets(boxes: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """Give each cell of each picture its nearest box."""
    found = []
    for of_one in boxes:
        middle = (of_one[:, :2] + of_one[:, 2:]) / 2
        apart = torch.cdist(cells, middle)
        found.append(of_one[apart.argmin(1)] - 0.5)
    return torch.stack(found)


def main() -> None:
    args = kit.settings(ZOO, non_blocking=False)
    torch.set_num_threads(1)
    device = torch.device("cuda", 0)
    model = Detector().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, fused=True)
    cells = torch.rand(CELLS, 2, device=device)
    loader = DataLoader(Streets(), BATCH, num_workers=2, pin_memory=True)
    scaler = torch.amp.GradScaler("cuda")
    pace = kit.Pace()
    for images, boxes in loader:
        images = images.to(device, non_blocking=args.non_blocking)
        boxes = boxes.to(device, non_blocking=args.non_blocking)
        wanted = targets(boxes, cells)
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.l1_loss(model(images / 255), wanted)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
