"""Two ranks; one of them also keeps the statistics of every batch, and the other waits for it at each step."""

import kit

if __name__ == "__main__":
    kit.ranks(2)

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ZOO = {
    "cause": "straggling-rank",
    "says": "rank 1 computes a spectrum of each batch in a hook of its model, rank 0 does not",
    "fix": {"transforms": 0},
    "device": "none",
    "also": [],
}
ROWS, WIDTH, BATCH = 32 * 320, 512, 32


class Statistics:
    """What one rank wants to know of the activations."""

    def __init__(self, transforms: int) -> None:
        self.transforms = transforms
        self.spectrum = torch.zeros(WIDTH // 2 + 1)

    def update(self, _module: torch.nn.Module, given: tuple[torch.Tensor, ...]) -> None:
        for _ in range(self.transforms):
            self.spectrum += torch.fft.rfft(given[0], dim=1).abs().mean(0)


def main() -> None:
    args = kit.settings(ZOO, transforms=96)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(
        torch.nn.Sequential(
            torch.nn.Unflatten(1, (1, WIDTH)), torch.nn.Conv1d(1, 16, 9), torch.nn.ReLU(), torch.nn.Conv1d(16, 24, 9),
            torch.nn.AdaptiveAvgPool1d(1), torch.nn.Flatten(), torch.nn.Linear(24, 8),
        )
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = TensorDataset(torch.randn(ROWS, WIDTH), torch.randint(8, (ROWS,)))
    loader = DataLoader(data, BATCH, sampler=DistributedSampler(data))
    if dist.get_rank() == 1:
        model.module.register_forward_pre_hook(Statistics(args.transforms).update)
    dist.barrier()
    pace = kit.Pace()
    for _epoch in range(2):
        for x, y in loader:
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            pace.saw(2 * len(y))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
