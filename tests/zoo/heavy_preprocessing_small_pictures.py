"""Small pictures, each made a PIL image, a tensor and normalised by two workers on two CPUs: a third would not help."""

import kit
import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "heavy-preprocessing",
    "says": "some 0.2 ms of PIL and small tensors per sample, num_workers=2 on 2 CPUs",
    "fix": {"kept": True},
    "device": "none",
    "also": ["heavy-collate"],
}
COUNT = 12_000


class Pictures(Dataset):
    def __init__(self, *, kept: bool) -> None:
        self.pixels = torch.randint(256, (COUNT, 28, 28), dtype=torch.uint8)
        self.labels = torch.randint(10, (COUNT,))
        self.kept = self.pixels.unsqueeze(1).float().div_(255).sub_(0.13).div_(0.31) if kept else None

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index):
        picture = Image.fromarray(self.pixels[index].numpy()).rotate(0).convert("L")
        x = torch.from_numpy(np.array(picture)).unsqueeze(0).float().div(255)
        return x.sub_(torch.tensor(0.13)).div_(torch.tensor(0.31)), int(self.labels[index])

    def __getitems__(self, indices):
        if self.kept is None:
            return [self[index] for index in indices]
        return self.kept[indices], self.labels[indices]


def together(batch):
    return batch if isinstance(batch, tuple) else torch.utils.data.default_collate(batch)


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, kept=False)
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 12 * 12, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Pictures(kept=args.kept), batch_size=64, num_workers=args.num_workers, shuffle=True, collate_fn=together,
        persistent_workers=args.num_workers > 0,
    )  # fmt: skip
    pace = kit.Pace()
    for _epoch in range(12):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pace.saw(len(y))


if __name__ == "__main__":
    main()
