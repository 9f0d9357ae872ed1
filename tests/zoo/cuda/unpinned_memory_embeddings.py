"""A ranking model with embedding bags: ids, offsets and dense features of each batch come from pageable memory."""

import kit_cuda as kit
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

ZOO = {
    "cause": "unpinned-memory",
    "says": "6 MB of ids and numbers a step: the copy waits for the device, and the device for hundreds of lookups",
    "fix": {"pin_memory": True},
    "device": "cuda",
    "also": [],
    "pageable": True,
}
FIELDS, ROWS, BAG, DENSE, WIDTH, BUCKETS = 20, 8192, 2, 128, 64, 32


class Clicks(IterableDataset):
    """A log of impressions: for each field a bag of ids, and numbers."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        rng = torch.Generator().manual_seed(info.id if info else 0)
        ids = torch.randint(1_000_000, (FIELDS, ROWS, BAG), generator=rng)
        dense = torch.rand(ROWS, DENSE, generator=rng).half()
        for turn in range(480 // (info.num_workers if info else 1)):
            yield {"ids": ids.roll(turn, 0), "dense": dense, "clicked": dense[:, :1].round().float()}


class Ranker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(1_000_000, WIDTH, mode="sum", sparse=False) for _ in range(FIELDS))
        self.borders = nn.Parameter(torch.rand(DENSE, BUCKETS), requires_grad=False)
        self.bottom = nn.Sequential(nn.Linear(DENSE, 512), nn.ReLU(), nn.Linear(512, WIDTH))
        self.top = nn.Sequential(
            nn.Linear((FIELDS + 1) * WIDTH, 8192),
            nn.ReLU(),
            nn.Linear(8192, 8192),
            nn.ReLU(),
            nn.Linear(8192, 8192),
            nn.ReLU(),
            nn.Linear(8192, 1),
        )

    def forward(self, dense: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():  # the tables and the borders are trained elsewhere
            dense = torch.stack([torch.bucketize(x, b) for x, b in zip(dense.unbind(1), self.borders, strict=True)], 1)
            dense = dense / BUCKETS
            seen = [table(bag) for table, bag in zip(self.tables, ids, strict=True)]
        return self.top(torch.cat([self.bottom(dense), *seen], 1))


def main() -> None:
    args = kit.settings(ZOO, pin_memory=False, num_workers=2)
    torch.set_num_threads(1)
    with torch.device("cuda"):
        model = Ranker()
    trained = [*model.bottom.parameters(), *model.top.parameters()]
    optimizer = torch.optim.Adagrad(trained, lr=0.01)
    loader = DataLoader(Clicks(), batch_size=None, num_workers=args.num_workers, pin_memory=args.pin_memory)
    pace = kit.Pace()
    for batch in loader:
        ids, dense, clicked = (batch[k].to("cuda", non_blocking=True) for k in ("ids", "dense", "clicked"))
        with torch.autocast("cuda", torch.bfloat16):
            loss = nn.functional.binary_cross_entropy_with_logits(model(dense, ids), clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        pace.saw(ROWS)
    pace.done()


if __name__ == "__main__":
    main()
