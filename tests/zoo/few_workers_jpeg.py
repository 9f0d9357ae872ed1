"""Photographs are decoded and turned in the training process, while one of the two CPUs has nothing to do."""

import io

import kit
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "few-workers",
    "says": "about 1.5 ms of JPEG decoding per sample, num_workers=0",
    "fix": {"num_workers": 2},
    "device": "none",
    "also": [],
}


class Photos(Dataset):
    def __init__(self, count: int) -> None:
        rng = np.random.default_rng(0)
        self.files = []
        for _ in range(64):
            pixels = rng.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            out = io.BytesIO()
            Image.fromarray(pixels).resize((256, 256), Image.Resampling.BICUBIC).save(out, "JPEG", quality=90)
            self.files.append(out.getvalue())
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index):
        with Image.open(io.BytesIO(self.files[index % 64])) as image:
            photo = image.convert("RGB").rotate(index % 30 - 15, Image.Resampling.BILINEAR).resize((48, 48))
        return torch.from_numpy(np.asarray(photo).copy()).permute(2, 0, 1).float() / 255, index % 10


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.body(x).relu().mean((2, 3)))


def train(args) -> None:
    torch.set_num_threads(1)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters())
    criterion = nn.CrossEntropyLoss()
    loader = DataLoader(Photos(16 * 300), 16, shuffle=True, num_workers=args.num_workers)
    pace = kit.Pace()
    for images, labels in loader:
        optimizer.zero_grad(set_to_none=True)
        criterion(net(images), labels).backward()
        optimizer.step()
        pace.saw(images.shape[0])


if __name__ == "__main__":
    train(kit.settings(ZOO, num_workers=0))
