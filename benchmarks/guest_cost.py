"""What the guest costs per batch of a training, in place: between real steps that have used the caches for themselves.

One process: torch is imported with the guest present. Batches come with and without it in the order A B B A, each after
and before some ms of matrix products, and only the hooks are timed: `next()` of an iterator whose `__next__` does
nothing, and of one where the guest's stands in its place (torch's own takes 50 µs there, and varies by more than the
guest costs), and the method and the hooks that torch calls after an optimizer's step. The A/A control runs the same
way. The same again in a process where the guest does without its C part.
"""

import argparse
import inspect
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.utils.data
from common import emit, figure
from torch.optim import optimizer as hooks

BUDGET = 4e-6  # s per batch: the hooks around next() and around the optimizer's step
GUEST = Path(__file__).resolve().parent.parent / "probes" / "guest"
SIZE = 400
WARM_UP = 40  # rounds: the batches that are all sampled, and what Python specialises


class Bench:
    """An iterator and an optimizer, each with the guest and without it, and something real to do between them."""

    def __init__(self, step_ms: float) -> None:
        from gputune_guest import loader  # noqa: PLC0415 - only there under the guest

        class Bare:
            def __next__(self) -> object:
                return self

        class Watched:
            __next__ = loader._next(Bare.__next__)

        class BareSGD(torch.optim.SGD):
            _optimizer_step_code = inspect.unwrap(torch.optim.Optimizer._optimizer_step_code)

        weight = torch.nn.Parameter(torch.zeros(4))
        post_hooks = hooks._global_optimizer_post_hooks
        self.bare = (Bare(), BareSGD([weight], lr=0.1), type(post_hooks)())
        self.watched = (Watched(), torch.optim.SGD([weight], lr=0.1), post_hooks)
        torch.set_num_threads(1)
        self.a, self.b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
        began = time.perf_counter()
        self.work(10)
        self.repeats = max(1, round(step_ms / 1000 / ((time.perf_counter() - began) / 10)))

    def work(self, times: int) -> None:
        """Multiply matrices."""
        for _ in range(times):
            self.a @ self.b

    def batch(self, *, on: bool) -> int:
        """Return the ns of one batch's next() and of what follows an optimizer's step."""
        iterator, optimizer, after = self.watched if on else self.bare
        clock = time.perf_counter_ns
        self.work(self.repeats)
        t0 = clock()
        next(iterator)
        t1 = clock()
        self.work(self.repeats)
        t2 = clock()
        optimizer._optimizer_step_code()
        for hook in after.values():
            hook(optimizer, (), {})
        t3 = clock()
        return t1 - t0 + t3 - t2

    def compare(self, rounds: int, *, on: bool) -> list[float]:
        """Return the differences (s) of `rounds` rounds: off, `on`, `on`, off."""
        found = []
        for _ in range(rounds):
            x0, y0, y1, x1 = self.batch(on=False), self.batch(on=on), self.batch(on=on), self.batch(on=False)
            found.append((y0 + y1 - x0 - x1) / 2e9)
        return found


def inside(rounds: int, step_ms: float) -> None:
    """Measure, under the guest."""
    from gputune_guest import here  # noqa: PLC0415 - only there under the guest

    how = "in Python" if here.fast is None else "in C"
    bench = Bench(step_ms)
    bench.compare(WARM_UP, on=True)
    cost, control = bench.compare(rounds, on=True), bench.compare(rounds, on=False)
    budget = None if here.fast is None else BUDGET
    what = f"guest {how}, per batch in place (next and step hooks)"
    emit([figure(what, "s", cost, budget), figure(f"A/A control of the line above ({how})", "s", control)])


def main() -> None:
    """Start the measured processes under the guest, or be one."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=300)
    options.add_argument("--step-ms", type=float, default=5.0)
    options.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.inside:
        inside(chosen.rounds, chosen.step_ms)
        return
    for pure in ("", "1"):
        with tempfile.TemporaryDirectory(dir="/dev/shm") as rings:
            environment = {**os.environ, "GPUTUNE_RINGS": rings, "PYTHONPATH": str(GUEST), "GPUTUNE_GUEST_PURE": pure}
            subprocess.run([sys.executable, __file__, *sys.argv[1:], "--inside"], env=environment, check=True)


if __name__ == "__main__":
    main()
