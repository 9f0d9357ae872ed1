"""A training on the host, whose step has as many threads as there are CPUs, as torch has it, and workers beside it."""

import os

import kit
import torch
from torch.utils.data import DataLoader, Dataset

ZOO = {
    "cause": "oversubscribed-threads",
    "says": "two workers compute on the CPUs that each operation of the step has a thread on; the twin has one thread",
    "fix": {"threads": 1},
    "device": "none",
    "also": ["few-workers"],
}


class Signals(Dataset):
    """Signals that are filtered one by one, on one thread."""

    def __len__(self) -> int:
        return 48 * 400

    def __getitem__(self, index: int) -> torch.Tensor:
        signal = torch.sin(torch.arange(4096) * (index % 97 + 1) / 4096)
        for _ in range(3):
            signal = torch.fft.irfft(torch.fft.rfft(signal) * 0.5, n=4096)
        return signal.view(64, 64)


def main() -> None:
    args = kit.settings(ZOO, num_workers=2, threads=len(os.sched_getaffinity(0)))
    torch.set_num_threads(args.threads)
    model = torch.nn.Sequential(
        torch.nn.Conv1d(64, 64, 3, padding=1), torch.nn.BatchNorm1d(64), torch.nn.ReLU(),
        torch.nn.Conv1d(64, 64, 3, padding=1), torch.nn.BatchNorm1d(64), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.Linear(4096, 16),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    pace = kit.Pace()
    for batch in DataLoader(Signals(), batch_size=48, num_workers=args.num_workers):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        pace.saw(len(batch))


if __name__ == "__main__":
    main()
