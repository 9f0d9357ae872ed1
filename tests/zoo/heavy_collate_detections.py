"""Detection as in the tutorials: `collate_fn` only zips, so a batch is a tuple of pictures, boxes, labels and areas."""

import kit
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "heavy-collate",
    "says": "32 pictures with three tensors of targets each, zipped, by two workers; the twin pads and stacks them",
    "fix": {"stacked": True},
    "device": "none",
    "also": ["few-workers"],
}
MOST = 12  # boxes of a picture


class Street(Dataset):
    def __init__(self, pictures: int) -> None:
        self.pictures = pictures

    def __len__(self):
        return self.pictures

    def __getitem__(self, index):
        count = 1 + index % MOST
        boxes = torch.arange(4 * count, dtype=torch.float32).view(count, 4) / 100
        target = {"boxes": boxes, "labels": torch.full((count,), index % 3), "area": boxes[:, 2] * boxes[:, 3]}
        return torch.full((3, 32, 32), index / 1e4), target


def zipped(batch):
    return tuple(zip(*batch, strict=True))


def stacked(batch):
    pictures, targets = zip(*batch, strict=True)
    boxes, labels = torch.zeros(len(batch), MOST, 4), torch.full((len(batch), MOST), -1)
    for place, target in enumerate(targets):
        count = len(target["labels"])
        boxes[place, :count], labels[place, :count] = target["boxes"], target["labels"]
    return torch.stack(pictures), boxes, labels


class Detector(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 24, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten())
        self.head = torch.nn.Linear(24 * 15 * 15, MOST * 4)

    def forward(self, pictures):
        return self.head(self.body(pictures)).view(-1, MOST, 4)


if __name__ == "__main__":
    args = kit.settings(ZOO, num_workers=2, stacked=False)
    torch.set_num_threads(1)
    model = Detector()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(
        Street(32 * 160), batch_size=32, num_workers=args.num_workers, collate_fn=stacked if args.stacked else zipped
    )
    pace = kit.Pace()
    for batch in loader:
        if args.stacked:
            pictures, boxes, labels = batch
        else:
            pictures = torch.stack(batch[0])
            boxes, labels = torch.zeros(len(pictures), MOST, 4), torch.full((len(pictures), MOST), -1)
            for place, target in enumerate(batch[1]):
                boxes[place, : len(target["boxes"])] = target["boxes"]
                labels[place, : len(target["labels"])] = target["labels"]
        loss = F.smooth_l1_loss(model(pictures), boxes, reduction="none")[labels >= 0].mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(len(pictures))
