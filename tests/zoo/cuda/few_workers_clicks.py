"""A ranking model whose log is parsed by two workers, where five could be."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ZOO = {
    "cause": "few-workers",
    "says": "80 ms of waiting for a store for each batch, from two workers; 20 ms of the device",
    "fix": {"num_workers": 5},
    "device": "cuda",
    "also": [],
}
FIELDS, ROWS, WIDTH = 16, 16384, 64


class Log(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        for turn in range(info.id, 200, info.num_workers):
            kit.wait(0.08)
            ids = torch.arange(FIELDS * ROWS).view(FIELDS, ROWS, 1) + turn
            yield ids, torch.full((ROWS, 13), 0.5), torch.zeros(ROWS, 1)


class Dlrm(nn.Module):
    """Embedding bags beside a perceptron, their products pairwise, and another perceptron on top."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(500_000, WIDTH, mode="sum") for _ in range(FIELDS))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, WIDTH), nn.ReLU())
        self.top = nn.Sequential(
            nn.Linear((FIELDS + 1) ** 2, 8192), nn.ReLU(), nn.Linear(8192, 8192), nn.ReLU(), nn.Linear(8192, 1)
        )

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        rows = torch.stack([self.bottom(dense), *(t(i) for t, i in zip(self.tables, ids, strict=True))], 1)
        return self.top(torch.bmm(rows, rows.transpose(1, 2)).flatten(1))


def main() -> None:
    args = kit.settings(ZOO, num_workers=2)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = Dlrm()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, fused=True)
    pace = kit.Pace(warm=0)
    for ids, dense, clicked in DataLoader(Log(), batch_size=None, num_workers=args.num_workers, pin_memory=True):
        ids, dense, clicked = (t.to("cuda", non_blocking=True) for t in (ids, dense, clicked))
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.binary_cross_entropy_with_logits(model(dense, ids), clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(ROWS)
    pace.done()


if __name__ == "__main__":
    main()
