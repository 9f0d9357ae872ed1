"""The pictures are augmented in the training loop, after the loader has delivered them."""

import kit
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "preprocessing-in-loop",
    "says": "about 25 ms of PIL per batch between next() and the model, workers idle",
    "fix": {"in_dataset": True},
    "device": "none",
    "also": [],
}


def augment(pixels: np.ndarray, seed: int) -> np.ndarray:
    image = Image.fromarray(pixels).rotate(seed % 40 - 20, Image.Resampling.BICUBIC)
    return np.asarray(image.resize((48, 48), Image.Resampling.LANCZOS), dtype=np.float32) / 255


class Pixels(Dataset):
    def __init__(self, *, augmented: bool) -> None:
        self.pixels = np.random.default_rng(0).integers(0, 255, (64, 160, 160, 3), dtype=np.uint8)
        self.augmented = augmented

    def __len__(self) -> int:
        return 16 * 200

    def __getitem__(self, index: int):
        raw = self.pixels[index % 64]
        return augment(raw, index) if self.augmented else raw, index % 10


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, in_dataset=False)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.ReLU(), torch.nn.Conv2d(16, 64, 3, stride=2), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(64 * 11 * 11, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Pixels(augmented=args.in_dataset), batch_size=16, num_workers=args.num_workers)
    pace = kit.Pace()
    for number, (images, labels) in enumerate(loader):
        if not args.in_dataset:
            images = torch.from_numpy(np.stack([augment(i.numpy(), number * 16 + n) for n, i in enumerate(images)]))  # noqa: PLW2901 - as people write it
        output = model(images.permute(0, 3, 1, 2))
        loss = torch.nn.functional.cross_entropy(output, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(labels))


if __name__ == "__main__":
    main()
