"""What the guest costs per batch of a training, in place: between real steps that have used the caches for themselves.

One process: torch is imported with the guest present, so the patched and the original `__next__` are both at hand.
Blocks of batches run with and without it in the order A B B A. Each batch is followed by matrix products of several
ms, and only the hooks are timed: `next()` of an iterator that costs nothing itself, and the optimizer's hooks. An A/A
control runs the same way; a result whose control's interval excludes 0 is void. Prints one JSON object.

    python benchmarks/guest_cost.py [--rounds N] [--step-ms MS]
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BUDGET = 4000  # ns per batch: the hooks around next() and around the optimizer's step
GUEST = Path(__file__).resolve().parent.parent / "probes" / "guest"
BLOCK = 12  # batches between two switches; the first two of a block are not counted
MATRIX = 400  # rows and columns: three of them do not fit into a second-level cache


def bootstrap(values: list[float], draws: int = 2000) -> tuple[float, float]:
    """Return the 95 % interval of the median of `values`."""
    chooser = random.Random(0)
    medians = sorted(statistics.median(chooser.choices(values, k=len(values))) for _ in range(draws))
    return medians[draws // 40], medians[-draws // 40]


class Many:
    """A dataset without an end that matters."""

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, index: int) -> int:
        return index


class Loop:
    """A training loop that can run with the hooks and without. Needs a process that the guest has come to."""

    def __init__(self, step_ms: float) -> None:
        import torch  # noqa: PLC0415 - the user's, and only in the measured process
        from torch.optim import optimizer  # noqa: PLC0415 - as above
        from torch.utils.data import dataloader  # noqa: PLC0415 - as above

        self.theirs = dataloader._BaseDataLoaderIter.__next__.__wrapped__
        self.ours = dataloader._BaseDataLoaderIter.__next__
        self.iterator = iter(torch.utils.data.DataLoader(Many(), batch_size=8))
        self.iterator._next_data = lambda: 1  # what is left of next() is torch's own frame around it
        weight = torch.nn.Parameter(torch.zeros(4))
        weight.grad = torch.zeros(4)
        self.step = torch.optim.SGD([weight], lr=0.1).step
        self.hooks = [optimizer._global_optimizer_pre_hooks, optimizer._global_optimizer_post_hooks]
        self.kept = [dict(hooks) for hooks in self.hooks]
        torch.set_num_threads(1)
        self.a = self.b = torch.randn(MATRIX, MATRIX)
        self.work(20)
        began = time.perf_counter()
        self.work(20)
        self.repeats = max(4, round(step_ms / 1000 / ((time.perf_counter() - began) / 20)))

    def work(self, repeats: int) -> None:
        """Do what fills the caches."""
        for _ in range(repeats):
            self.a @ self.b

    def block(self, *, guest: bool) -> float:
        """Return ns per batch of `next()` and the optimizer's step, with the guest's hooks or without."""
        for hooks, kept in zip(self.hooks, self.kept, strict=True):
            hooks.clear()
            hooks.update(kept if guest else {})
        advance = self.ours if guest else self.theirs  # not set on the class: Python would forget its specialisations
        clock, costs = time.perf_counter_ns, []
        for _ in range(BLOCK):
            self.work(self.repeats)
            began = clock()
            advance(self.iterator)
            got = clock() - began
            self.work(self.repeats // 4)
            began = clock()
            self.step()
            costs.append(got + clock() - began)
        return statistics.median(costs[2:])

    def compare(self, rounds: int, *, control: bool) -> list[float]:
        """Return the differences of `rounds` blocks with the guest to blocks without it, or of blocks without it."""
        guest, differences = not control, []
        for _ in range(rounds):
            blocks = [
                self.block(guest=False),
                self.block(guest=guest),
                self.block(guest=guest),
                self.block(guest=False),
            ]
            differences.append((blocks[1] + blocks[2] - blocks[0] - blocks[3]) / 2)
        return differences


def measure(rounds: int, step_ms: float) -> dict[str, Any]:
    """Return the result, in the process that is measured."""
    loop = Loop(step_ms)
    cost, control = loop.compare(rounds, control=False), loop.compare(rounds, control=True)
    low, high = bootstrap(cost)
    control_low, control_high = bootstrap(control)
    return {
        "name": "guest, ns per batch in place (next and step hooks)",
        "budget": BUDGET,
        "value": statistics.median(cost),
        "ci": [low, high],
        "control": [control_low, control_high],
        "void": not control_low <= 0 <= control_high,
        "within": high <= BUDGET,
        "step_ms": step_ms,
        "rounds": rounds,
    }


def main() -> None:
    """Start the measured process under the guest and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--step-ms", type=float, default=5.0)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(measure(options.rounds, options.step_ms), indent=1))
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
        environment = {**os.environ, "GPUTUNE_RINGS": rings, "PYTHONPATH": str(GUEST)}
        sys.exit(subprocess.call([sys.executable, __file__, *sys.argv[1:], "--inside"], env=environment))


if __name__ == "__main__":
    main()
