"""One loop of benchmarks/proofs.py: an ordinary training that knows nothing of gputune, made as its options say.

It prints one JSON object at its end: samples/s, the device caught up at both ends. `GPU_DAY_SECONDS`: how long it
lasts.
"""

import argparse
import json
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WARM = 25  # steps before anything is timed: allocator, cuBLAS's choice, the loader's queue
ENDLESS = 10_000_000


class Samples(Dataset):
    """Samples of `size` numbers, each after waiting and computing for as long as is said (s)."""

    def __init__(self, size: int, waits: float, computes: float) -> None:
        self.sample, self.waits, self.computes = torch.zeros(size), waits, computes

    def __len__(self) -> int:
        return ENDLESS

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.waits:
            time.sleep(self.waits)
        until = time.thread_time() + self.computes
        while time.thread_time() < until:
            pass
        return self.sample


def asked() -> argparse.Namespace:
    """Return what the loop is to be like."""
    options = argparse.ArgumentParser(description=__doc__)
    for name, usual in (("num-workers", 1), ("prefetch-factor", 2), ("batch-size", 32), ("wide", 8192), ("deep", 2)):
        options.add_argument(f"--{name}", type=int, default=usual)
    options.add_argument("--size", type=int, default=512, help="numbers a sample")
    options.add_argument("--waits", type=float, default=0.0, help="ms a sample")
    options.add_argument("--computes", type=float, default=0.0, help="ms a sample")
    options.add_argument("--slower", type=int, default=1, help="both take so many times as long")
    options.add_argument("--item", action="store_true", help="read the loss of every step")
    for name in ("--pin-memory", "--persistent-workers"):
        options.add_argument(name, type=lambda word: word.lower() in {"1", "true"}, default=False)
    return options.parse_args()


def main() -> None:
    """Train, and say how fast."""
    loop = asked()
    torch.set_num_threads(1)
    first = nn.AdaptiveAvgPool1d(512) if loop.size > 512 else nn.Identity()
    model = nn.Sequential(
        first,
        nn.Linear(512, loop.wide),
        *(nn.Linear(loop.wide, loop.wide) for _ in range(loop.deep)),
        nn.Linear(loop.wide, 1),
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    loader = DataLoader(
        Samples(loop.size, loop.slower * loop.waits / 1e3, loop.slower * loop.computes / 1e3),
        loop.batch_size,
        num_workers=loop.num_workers,
        prefetch_factor=loop.prefetch_factor if loop.num_workers else None,
        pin_memory=loop.pin_memory,
        persistent_workers=loop.persistent_workers,
    )
    seconds, began, count, total = float(os.environ.get("GPU_DAY_SECONDS", "10")), 0.0, -WARM, 0.0
    for batch in loader:
        x = batch.to("cuda", non_blocking=True)
        for _ in range(4):  # views of each sample
            loss = model(x.unsqueeze(1) if loop.size > 512 else x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if loop.item:
            total += loss.item()
        count += 1
        if not count:
            torch.cuda.synchronize()
            began = time.perf_counter()
        if began and time.perf_counter() - began >= seconds:
            break
    torch.cuda.synchronize()
    print(json.dumps({"samples_per_s": count * loop.batch_size / (time.perf_counter() - began)}), flush=True)


if __name__ == "__main__":
    main()
