"""Two workers on two CPUs turn and blur big pictures and cannot keep up: only cheaper work can help."""

import functools

import kit
import numpy as np
import torch
from PIL import Image, ImageFilter
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "heavy-preprocessing",
    "says": "about 6 ms of PIL per sample, num_workers=2 on 2 CPUs",
    "fix": {"offline": True},
    "device": "none",
    "also": [],
}


@functools.lru_cache(maxsize=8)
def picture(number: int) -> Image.Image:
    pixels = np.random.default_rng(number).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((256, 256), Image.Resampling.BICUBIC)


@functools.lru_cache(maxsize=8)
def prepared(number: int) -> np.ndarray:
    """Return a picture that was turned, blurred and scaled before the training: what `offline` reads."""
    turned = picture(number).rotate(9, Image.Resampling.BICUBIC).filter(ImageFilter.GaussianBlur(3))
    return np.asarray(turned.resize((48, 48), Image.Resampling.BICUBIC), dtype=np.float32) / 255


class Pictures(Dataset):
    def __init__(self, *, offline: bool) -> None:
        self.offline = offline

    def __len__(self) -> int:
        return 16 * 130

    def __getitem__(self, index):
        make = prepared if self.offline else prepared.__wrapped__
        return make(index % 8).transpose(2, 0, 1).copy(), index % 10


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, offline=False)
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Pictures(offline=args.offline), batch_size=16, num_workers=args.num_workers, shuffle=True)
    pace = kit.Pace()
    for images, labels in loader:
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(labels))


if __name__ == "__main__":
    main()
