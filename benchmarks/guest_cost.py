"""What the guest costs per batch of a training, in place: between real steps that have used the caches for themselves.

One process: torch is imported with the guest present, so the patched and the original `__next__` are both at hand. Blocks
of batches run with and without it in the order A B B A, each batch followed by about 10 ms of matrix products, and
only the hooks are timed: `next()` of an iterator that costs nothing itself, and the optimizer hooks. An A/A control
runs the same way; a result whose control's interval excludes 0 is void. Prints one JSON object.

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
from collections.abc import Callable
from pathlib import Path

BUDGET = 4000  # ns per batch: the hooks around next() and around the optimizer's step
GUEST = Path(__file__).resolve().parent.parent / "probes" / "guest"
BLOCK = 10  # batches between two switches


def bootstrap(values: list[float], draws: int = 2000) -> tuple[float, float]:
    """Return the 95 % interval of the median of `values`."""
    chooser = random.Random(0)
    medians = sorted(statistics.median(chooser.choices(values, k=len(values))) for _ in range(draws))
    return medians[draws // 40], medians[-draws // 40]


def measure(rounds: int, step_ms: float) -> dict[str, object]:
    """Run inside a process that the guest has come to."""
    import torch
    from torch.utils.data import dataloader

    from gputune_guest import patching  # the guest is there, or this fails

    done = [entry for entry in patching._done if entry[0] is dataloader._BaseDataLoaderIter and entry[1] == "__next__"]
    ours, theirs = done[0][3], done[0][2]

    class Many(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 10**9

        def __getitem__(self, index: int) -> int:
            return index

    loader = torch.utils.data.DataLoader(Many(), batch_size=8)
    iterator = iter(loader)
    iterator._next_data = lambda: 1  # what is left of next() is torch's own frame around it
    weight = torch.nn.Parameter(torch.zeros(4))
    weight.grad = torch.zeros(4)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    from torch.optim import optimizer as hooks

    before, after = dict(hooks._global_optimizer_pre_hooks), dict(hooks._global_optimizer_post_hooks)
    size = 400
    a, b = torch.randn(size, size), torch.randn(size, size)
    torch.set_num_threads(1)
    t = time.perf_counter()
    for _ in range(10):
        a @ b
    repeats = max(1, round(step_ms / 1000 / ((time.perf_counter() - t) / 10)))

    def switch(on: bool) -> None:
        hooks._global_optimizer_pre_hooks.clear()
        hooks._global_optimizer_post_hooks.clear()
        if on:
            hooks._global_optimizer_pre_hooks.update(before)
            hooks._global_optimizer_post_hooks.update(after)

    clock: Callable[[], int] = time.perf_counter_ns

    def block(on: bool) -> float:
        switch(on)
        advance = ours if on else theirs  # not set on the class: that would make Python forget what it had specialised
        costs = []
        for _ in range(BLOCK):
            for _ in range(repeats):
                a @ b
            t0 = clock()
            advance(iterator)
            t1 = clock()
            for _ in range(repeats // 4):
                a @ b
            t2 = clock()
            optimizer.step()
            t3 = clock()
            costs.append(t1 - t0 + t3 - t2)
        return statistics.median(costs)

    def compare(first: bool, second: bool) -> list[float]:
        differences = []
        for _ in range(rounds):
            x0, y0, y1, x1 = block(first), block(second), block(second), block(first)
            differences.append((y0 + y1 - x0 - x1) / 2)
        return differences

    block(True), block(False)
    cost, control = compare(False, True), compare(False, False)
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
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--step-ms", type=float, default=10.0)
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
