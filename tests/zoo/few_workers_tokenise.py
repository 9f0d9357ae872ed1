"""Text is cut into word pieces in pure Python, in the training process."""

import kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "few-workers",
    "says": "about 1 ms of pure Python per sample, num_workers=0",
    "fix": {"num_workers": 2},
    "device": "none",
    "also": [],
}
WORDS = ["supercalifragilistic", "training", "networks", "everyday", "matter", "graphical", "processors", "nowadays"]


def pieces(text: str, length: int) -> list[int]:
    out = []
    for word in text.split():
        for start in range(0, len(word), 3):
            piece = word[start : start + 3].lower()
            out.append(sum(ord(c) * 31**n for n, c in enumerate(piece)) % 8192)
    return (out + [0] * length)[:length]


class Reviews(Dataset):
    def __len__(self) -> int:
        return 24 * 330

    def __getitem__(self, index):
        text = " ".join(WORDS[(index * 7 + n) % len(WORDS)] for n in range(160))
        return torch.tensor(pieces(text, 192)), index % 2


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.EmbeddingBag(8192, 256)
        self.head = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, 2))

    def forward(self, ids):
        return self.head(self.embed(ids))


def collate(rows):
    ids, labels = zip(*rows, strict=True)
    return torch.stack(ids), torch.tensor(labels)


if __name__ == "__main__":
    args = kit.settings(ZOO, num_workers=0)
    torch.set_num_threads(1)
    model = Bag()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Reviews(), 24, shuffle=True, num_workers=args.num_workers, collate_fn=collate)
    pace = kit.Pace()
    for ids, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(ids), labels).backward()
        optimizer.step()
        pace.saw(len(labels))
