"""Pictures go to the card from pageable memory: each copy waits until the device stands still, and all else for it."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "unpinned-memory",
    "says": "10 MB a step from pageable memory, `non_blocking=True` or not: no step is queued while one runs",
    "fix": {"pin_memory": True},
    "device": "cuda",
    "also": [],
    "pageable": True,
}
BATCH, SIDE = 64, 224


class Pictures(Dataset):
    """Decoded pictures, kept in memory."""

    def __init__(self) -> None:
        self.kept = torch.randint(256, (64, 3, SIDE, SIDE), dtype=torch.uint8)

    def __len__(self) -> int:
        return BATCH * 480

    def __getitem__(self, index):
        return self.kept[index % 64], index % 1000


def cropped(pictures: torch.Tensor, side: int = 192) -> torch.Tensor:
    """Return a random piece of each picture, mirrored or not, as floats."""
    pieces = []
    for picture, (top, left, mirrored) in zip(pictures, torch.randint(SIDE - side, (BATCH, 3)).tolist(), strict=True):
        piece = picture[:, top : top + side, left : left + side]
        pieces.append(piece.flip(2) if mirrored % 2 else piece)
    return torch.stack(pieces).float().div_(255)


class Patches(nn.Module):
    """A patch embedding, and convolutions at the size of the patches."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 768, 8, 8)
        self.body = nn.ModuleList(nn.Conv2d(768, 768, 3, padding=1) for _ in range(3))
        self.head = nn.Linear(768, 1000)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.body:
            x = x + nn.functional.gelu(layer(x))
        return self.head(x.mean((2, 3)))


def main() -> None:
    args = kit.settings(ZOO, pin_memory=False, num_workers=2)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = Patches()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    loader = DataLoader(Pictures(), BATCH, num_workers=args.num_workers, pin_memory=args.pin_memory)
    scaler = torch.amp.GradScaler("cuda")
    pace = kit.Pace()
    for images, labels in loader:
        images, labels = images.to("cuda", non_blocking=True), labels.to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.cross_entropy(model(cropped(images)), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
