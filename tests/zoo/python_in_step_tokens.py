"""A text classifier that takes strings: words are looked up inside of `forward`, at every step and every epoch."""

import re

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "python-in-step",
    "says": "forward() splits and looks up 128 texts in plain Python; the twin was given numbers",
    "fix": {"ready": True},
    "device": "none",
    "also": [],
}
WORDS = [f"word{number}" for number in range(5000)]
LENGTH = 180


class Texts(Dataset):
    """Texts of LENGTH words, or the numbers that these have."""

    def __init__(self, size: int, *, ready: bool) -> None:
        order = torch.randint(0, len(WORDS), (512, LENGTH), generator=torch.Generator().manual_seed(1))
        self.size = size
        self.rows: list[str] | list[torch.Tensor] = (
            list(order + 1) if ready else [" ".join(WORDS[n] for n in row) for row in order.tolist()]
        )

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[str | torch.Tensor, int]:
        return self.rows[index % 512], index % 2


class Classifier(torch.nn.Module):
    """The mean of the words' vectors, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.known = {word: number + 1 for number, word in enumerate(WORDS)}
        self.words = torch.nn.Embedding(len(WORDS) + 1, 256)
        self.head = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 2))

    def encode(self, texts: list[str]) -> torch.Tensor:
        return torch.tensor([[self.known.get(word, 0) for word in re.findall(r"\w+", text)] for text in texts])

    def forward(self, texts: list[str] | torch.Tensor) -> torch.Tensor:
        numbers = texts if isinstance(texts, torch.Tensor) else self.encode(texts)
        return self.head(self.words(numbers).mean(1))


args = kit.settings(ZOO, ready=False)
torch.set_num_threads(1)
model = Classifier()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
pace = kit.Pace()
for texts, labels in DataLoader(Texts(128 * 500, ready=args.ready), batch_size=128, num_workers=1):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(texts), labels).backward()
    optimizer.step()
    pace.saw(len(labels))
