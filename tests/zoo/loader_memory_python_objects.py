"""A corpus as Python lists of words: each worker goes through it once, and so makes every page of it its own."""

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "loader-memory",
    "says": "200 MB of Python objects that each of four workers copies, by counting references, where there are 1.3 GB",
    "fix": {"packed": True},
    "device": "none",
    "container": ["--memory", "1250"],
    "also": [],
}
DOCUMENTS, WORDS, WIDTH = 42_000, 64, 1280


class Corpus(Dataset):
    """Documents as lists of words, or `packed` as one text each; those of like length are neighbours."""

    def __init__(self, packed: bool) -> None:
        texts = ([f"word-{number:x}-{place:x}" for place in range(WORDS)] for number in range(DOCUMENTS))
        self.texts = [" ".join(text) for text in texts] if packed else list(texts)
        self.packed = packed
        self.order: list[int] = []

    def __len__(self) -> int:
        return DOCUMENTS

    def words(self, index: int) -> list[str]:
        return self.texts[index].split() if self.packed else self.texts[index]

    def sort(self) -> None:
        """Sort by length, in the process that reads: this looks at every word."""
        self.order = sorted(range(DOCUMENTS), key=lambda index: sum(map(len, self.words(index))))

    def __getitem__(self, index: int) -> torch.Tensor:
        if not self.order:
            self.sort()
        return torch.tensor([len(word) for word in self.words(self.order[index])], dtype=torch.float32)


def main() -> None:
    args = kit.settings(ZOO, num_workers=4, packed=False)
    torch.set_num_threads(1)
    loader = DataLoader(Corpus(args.packed), batch_size=32, num_workers=args.num_workers, shuffle=True)
    model = torch.nn.Sequential(
        torch.nn.Linear(WORDS, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, 1),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters())
    pace = kit.Pace()
    for lengths in loader:
        optimizer.zero_grad()
        model(lengths).square().mean().backward()
        optimizer.step()
        pace.saw(len(lengths))


if __name__ == "__main__":
    main()
