"""Micro-batches of documents that one worker fetches from a store; the optimizer takes every fourth step."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "few-workers",
    "says": "50 ms of a worker for a micro-batch that trains in 21, gradients of four added up",
    "fix": {"num_workers": 4},
    "device": "cuda",
    "also": [],
}
BATCH, LENGTH, WIDTH, ACCUMULATE = 16, 512, 1024, 4


class Documents(Dataset):
    def __len__(self) -> int:
        return BATCH * 180

    def __getitem__(self, index: int) -> torch.Tensor:
        kit.wait(0.003)
        return torch.arange(index, index + LENGTH + 1) % 4096


class Recurrent(nn.Module):
    """A gated mixer: the state of a token comes from those before it by cumulative sums."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.gate, self.value, self.out = (nn.Linear(WIDTH, 4 * WIDTH) for _ in range(3))
        self.back = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        mixed = torch.cumsum(torch.sigmoid(self.gate(y)) * self.value(y), dim=1)
        return x + self.back(mixed * nn.functional.silu(self.out(y)))


def main() -> None:
    args = kit.settings(ZOO, num_workers=1)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = nn.Sequential(nn.Embedding(4096, WIDTH), *(Recurrent() for _ in range(6)), nn.Linear(WIDTH, 4096))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loader = DataLoader(Documents(), BATCH, num_workers=args.num_workers, pin_memory=True)
    pace = kit.Pace(warm=0)
    for step, tokens in enumerate(loader, 1):
        tokens = tokens.to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.bfloat16):
            guessed = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(guessed.transpose(1, 2), tokens[:, 1:])
        (loss / ACCUMULATE).backward()
        if step % ACCUMULATE == 0:
            optimizer.step()
            optimizer.zero_grad()
        pace.saw(BATCH)
    pace.done()


if __name__ == "__main__":
    main()
