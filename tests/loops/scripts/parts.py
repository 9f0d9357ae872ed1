"""What every loop here is made of: a data set whose samples take a known time, and a small model."""

import sys
import time

import torch
from torch import nn

SLOW = "slow" in sys.argv[1:]  # each sample then waits for 2 ms, as for a disk; two workers make up for none of it
SAMPLES, BATCH, FEATURES = 640, 16, 64
WAIT_S = 0.002


class Samples(torch.utils.data.Dataset):
    """Map-style: `length` samples."""

    def __init__(self, length: int = SAMPLES, *, slow: bool = SLOW) -> None:
        self.length, self.slow = length, slow
        self.x = torch.randn(length, FEATURES)
        self.y = torch.randint(0, 10, (length,))

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int):
        if self.slow:
            time.sleep(WAIT_S)
        return self.x[index], self.y[index]


def model() -> nn.Module:
    """Return a model whose step takes some milliseconds."""
    return nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
