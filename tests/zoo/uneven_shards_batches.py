"""Two equal ranks, one of which was given batches three times as large as the other's."""

import kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "uneven-shards",
    "says": "of 192 samples a step rank 0 gets 48 and rank 1 gets 144",
    "fix": {"first": 96},
    "device": "none",
    "also": [],
}
TOGETHER, STEPS = 192, 240


class Noise(Dataset):
    """Pictures that cost nothing to make."""

    def __init__(self, count: int) -> None:
        self.count, self.picture = count, torch.randn(3, 32, 32)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int):
        return self.picture, index % 10


class Classifier(torch.nn.Sequential):
    def __init__(self) -> None:
        super().__init__(
            torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.GELU(), torch.nn.Conv2d(16, 48, 3), torch.nn.GELU(),
            torch.nn.AdaptiveMaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(192, 10),
        )  # fmt: skip


def main() -> None:
    args = kit.settings(ZOO, first=48)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(Classifier())
    optimizer = torch.optim.Adam(model.parameters())
    mine = args.first if dist.get_rank() == 0 else TOGETHER - args.first
    dist.barrier()
    pace = kit.Pace()
    for pictures, labels in DataLoader(Noise(mine * STEPS), mine):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()
        pace.saw(TOGETHER)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
