"""What the guest costs per batch of a training, in place: between real steps that have used the caches for themselves.

One process: torch is imported with the guest present, so the patched and the original `__next__` are both at hand.
Blocks of batches run with and without it in the order A B B A, each batch followed by about 10 ms of matrix products,
and only the hooks are timed: `next()` of an iterator that costs nothing itself, and the optimizer hooks. The A/A
control runs the same way.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from common import emit, figure
from torch.optim import optimizer as hooks
from torch.utils.data import DataLoader, Dataset, dataloader

BUDGET = 4e-6  # s per batch: the hooks around next() and around the optimizer's step
GUEST = Path(__file__).resolve().parent.parent / "probes" / "guest"
BLOCK = 10  # batches between two switches
SIZE = 400


class Many(Dataset[int]):
    """A dataset that never ends and costs nothing."""

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, index: int) -> int:
        return index


class Bench:
    """An iterator, an optimizer and something real to do between them."""

    def __init__(self, step_ms: float) -> None:
        from gputune_guest import patching  # noqa: PLC0415 - only there under the guest

        owner = dataloader._BaseDataLoaderIter
        done = next(entry for entry in patching._done if entry[0] is owner and entry[1] == "__next__")
        self.ours, self.theirs = done[3], done[2]
        self.iterator = iter(DataLoader(Many(), batch_size=8))
        self.iterator._next_data = lambda: 1  # what is left of next() is torch's own frame around it
        weight = torch.nn.Parameter(torch.zeros(4))
        weight.grad = torch.zeros(4)
        self.optimizer = torch.optim.SGD([weight], lr=0.1)
        self.before = dict(hooks._global_optimizer_pre_hooks)
        self.after = dict(hooks._global_optimizer_post_hooks)
        torch.set_num_threads(1)
        self.a, self.b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
        began = time.perf_counter()
        self.work(10)
        self.repeats = max(1, round(step_ms / 1000 / ((time.perf_counter() - began) / 10)))

    def work(self, times: int) -> None:
        """Multiply matrices."""
        for _ in range(times):
            self.a @ self.b

    def block(self, *, on: bool) -> float:
        """Return the median s of one batch's next() and optimizer step."""
        hooks._global_optimizer_pre_hooks.clear()
        hooks._global_optimizer_post_hooks.clear()
        if on:
            hooks._global_optimizer_pre_hooks.update(self.before)
            hooks._global_optimizer_post_hooks.update(self.after)
        advance = self.ours if on else self.theirs  # set on the class, it would make Python forget its specialisations
        clock, costs = time.perf_counter_ns, []
        for _ in range(BLOCK):
            self.work(self.repeats)
            t0 = clock()
            advance(self.iterator)
            t1 = clock()
            self.work(self.repeats // 4)
            t2 = clock()
            self.optimizer.step()
            t3 = clock()
            costs.append(t1 - t0 + t3 - t2)
        return statistics.median(costs) / 1e9

    def compare(self, rounds: int, *, on: bool) -> list[float]:
        """Return the differences of `rounds` rounds: off, `on`, `on`, off."""
        found = []
        for _ in range(rounds):
            x0, y0, y1, x1 = self.block(on=False), self.block(on=on), self.block(on=on), self.block(on=False)
            found.append((y0 + y1 - x0 - x1) / 2)
        return found


def main() -> None:
    """Start the measured process under the guest, or be it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=30)
    options.add_argument("--step-ms", type=float, default=10.0)
    options.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if not chosen.inside:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
            environment = {**os.environ, "GPUTUNE_RINGS": rings, "PYTHONPATH": str(GUEST)}
            sys.exit(subprocess.call([sys.executable, __file__, *sys.argv[1:], "--inside"], env=environment))
    bench = Bench(chosen.step_ms)
    bench.block(on=True)
    cost, control = bench.compare(chosen.rounds, on=True), bench.compare(chosen.rounds, on=False)
    emit(
        [
            figure("guest, per batch in place (next and step hooks)", "s", cost, BUDGET),
            figure("guest, per batch: A/A control of the line above", "s", control),
        ]
    )


if __name__ == "__main__":
    main()
