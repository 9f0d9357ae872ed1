"""Train a small network to read handwritten digits from image files: an ordinary script, on a CPU or a GPU.

Run make_digits.py first. Then `gputune watch -- python examples/train_digits.py`.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Digits(Dataset):
    """Pictures in one folder per class, each turned, shifted and scaled a little at random."""

    def __init__(self, root: Path, *, augment: bool) -> None:
        self.paths = sorted(root.glob("*/*.png"))
        self.augment = augment
        if not self.paths:
            raise SystemExit(f"no images in {root}: run `python examples/make_digits.py` first")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path = self.paths[index]
        with Image.open(path) as file:
            image = file.convert("L")
        if self.augment:
            angle, x, y = np.random.uniform(-12, 12, 3)
            image = image.rotate(angle, Image.Resampling.BICUBIC, translate=(round(x), round(y)))
        image = image.resize((32, 32), Image.Resampling.LANCZOS)
        return torch.from_numpy(np.asarray(image, dtype=np.float32) / 255).unsqueeze(0), int(path.parent.name)


class Net(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classify = nn.Linear(32 * 8 * 8, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return ten scores for each picture."""
        return self.classify(self.features(images).flatten(1))


@torch.no_grad()
def accuracy(model: Net, loader: DataLoader, device: torch.device) -> float:
    """Return the share of pictures that the model reads right."""
    model.eval()
    right = sum(int((model(x.to(device)).argmax(1) == y.to(device)).sum()) for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main() -> None:
    """Train for some epochs, and say after each how it goes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("demo-data"))
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--num-workers", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # so small a network gains nothing from more, and workers need the other CPUs
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Net().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train = DataLoader(
        Digits(args.data / "train", augment=True), args.batch_size, shuffle=True, num_workers=args.num_workers
    )
    valid = DataLoader(Digits(args.data / "valid", augment=False), args.batch_size, num_workers=args.num_workers)
    for epoch in range(args.epochs):
        began, total = time.perf_counter(), 0.0
        for images, labels in train:
            loss = nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        seconds = time.perf_counter() - began
        print(
            f"epoch {epoch}: loss {total / len(train):.3f}, "
            f"accuracy {accuracy(model, valid, device):.1%}, {len(train.dataset) / seconds:.0f} images/s"
        )


if __name__ == "__main__":
    main()
