"""What the guest costs per batch of a training, in place: between real steps that have used the caches for themselves.

One process: torch is imported with the guest present. Batches come with and without it in the order A B B A; some ms
of matrix products come before each of the four moments at which a tool is met (next(), the model, backward, the
optimizer's step), and only what stands there is timed, around calls of theirs that do nothing (`sides.py`): torch's own
next() takes 50 µs there, and varies by more than the guest costs. The A/A control runs the same way. The same again in
a process where the guest does without its C part.

With `--traceml`, once more under `traceml run`, in one process that has both tools and takes them in turn: bare, guest,
TraceML, TraceML, guest, bare. The ratio is that of two medians of one run, its interval a bootstrap over the rounds.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

import sides
import torch
from common import Figure, emit, figure, interval

BUDGET = 4e-6  # s per batch
RATIO = 1 / 40  # budget: of what TraceML costs per step
GUEST = Path(__file__).resolve().parent.parent / "probes" / "guest"
SIZE = 400
WARM_UP = 40  # rounds: the batches that are all sampled, and what Python specialises
MOMENTS = ("next", "forward", "backward", "step")
CONTROL = "A/A control of the line above"
Round: TypeAlias = list[list[float]]  # by tool and moment: s more than without one


class Bench:
    """Something real to do between the moments at which a tool is met."""

    def __init__(self, step_ms: float) -> None:
        torch.set_num_threads(1)
        self.bare = sides.bare()
        self.a, self.b = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
        self.repeats = 10
        began = time.perf_counter()
        self.work()
        took = (time.perf_counter() - began) / self.repeats
        self.repeats = max(1, round(step_ms / 1000 / len(MOMENTS) / took))

    def work(self) -> None:
        """Multiply matrices."""
        for _ in range(self.repeats):
            self.a @ self.b

    def batch(self, side: sides.Side) -> tuple[int, int, int, int]:
        """Return the ns that a side takes at each moment of one step."""
        clock = time.perf_counter_ns
        batches, step, model, backward, before, optimizer, after = side
        self.work()
        t0 = clock()
        next(batches)
        entered = step(model)
        entered.__enter__()
        t1 = clock()
        self.work()
        t2 = clock()
        model()
        t3 = clock()
        self.work()
        t4 = clock()
        backward(batches)
        t5 = clock()
        self.work()
        t6 = clock()
        for hook in before:
            hook(optimizer, (), {})
        optimizer._optimizer_step_code()
        for hook in after:
            hook(optimizer, (), {})
        entered.__exit__(None, None, None)
        t7 = clock()
        return t1 - t0, t3 - t2, t5 - t4, t7 - t6

    def compare(self, rounds: int, *tools: sides.Side) -> list[Round]:
        """Return what each of the tools takes, by rounds: nobody, the tools, the tools backwards, nobody."""
        found = []
        for _ in range(rounds):
            times = [self.batch(side) for side in (self.bare, *tools, *tools[::-1], self.bare)]
            without = _added(times[0], times[-1])
            pairs = [_added(times[1 + i], times[-2 - i]) for i in range(len(tools))]
            found.append([[(x - y) / 2e9 for x, y in zip(pair, without, strict=True)] for pair in pairs])
        return found


def _added(a: Sequence[int], b: Sequence[int]) -> list[int]:
    return [x + y for x, y in zip(a, b, strict=True)]


def in_all(rounds: Sequence[Round], tool: int = 0) -> list[float]:
    """Return what a tool takes of a whole step (s), by rounds."""
    return [sum(found[tool]) for found in rounds]


def tell(name: str, rounds: Sequence[Round], tool: int = 0) -> None:
    """Print what a tool takes at each moment: to look at, no figures."""
    costs = [statistics.median(found[tool][i] for found in rounds) for i in range(len(MOMENTS))]
    print(f"{name}:", ", ".join(f"{m} {c * 1e6:.2f} µs" for m, c in zip(MOMENTS, costs, strict=True)))


def alone(bench: Bench, rounds: int) -> list[Figure]:
    """Return what the guest takes where it is the only tool."""
    from gputune_guest import here  # noqa: PLC0415 - only there under the guest

    how = "in Python" if here.fast is None else "in C"
    guest = sides.guest()
    bench.compare(WARM_UP, guest)
    cost, control = bench.compare(rounds, guest), bench.compare(rounds, sides.bare())
    tell(f"guest {how}", cost)
    what = f"guest {how}, per batch in place (next, backward and step hooks)"
    budget = None if here.fast is None else BUDGET
    return [figure(what, "s", in_all(cost), budget), figure(f"{CONTROL} ({how})", "s", in_all(control))]


def beside_traceml(bench: Bench, rounds: int) -> list[Figure]:
    """Return what the guest and TraceML take in one process, and the ratio."""
    both = (sides.guest(), sides.traceml())
    bench.compare(WARM_UP, *both)
    cost, control = bench.compare(rounds, *both), bench.compare(rounds, sides.bare())
    tell("guest", cost)
    tell("traceml", cost, 1)
    ours, theirs = in_all(cost), in_all(cost, 1)
    return [
        figure("traceml: its hooks, per step in place", "s", theirs),
        figure("guest in C, per batch in place, by turns with the line above", "s", ours),
        figure("A/A control of the two lines above", "s", in_all(control)),
        Figure(
            "guest's cost per batch over TraceML's per step",
            "ratio",
            *interval(list(zip(ours, theirs, strict=True)), ratio),
            RATIO,
        ),
    ]


def ratio(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the median of the first over that of the second."""
    return statistics.median(ours for ours, _ in pairs) / statistics.median(theirs for _, theirs in pairs)


def measured(command: list[str], pure: str = "") -> list[Figure]:
    """Run a command, under the guest, that writes figures to the file it is told; print what it said of moments."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as rings, tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "GPUTUNE_RINGS": rings, "PYTHONPATH": str(GUEST), "GPUTUNE_GUEST_PURE": pure}
        out = Path(folder, "figures.json")
        command = [*command, "--inside", str(out)]
        done = subprocess.run(
            command,
            env=environment,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if not out.exists():
            raise SystemExit(f"{' '.join(command)} gave no figures:\n{done.stdout[-2000:]}")
        sys.stderr.writelines(f"{line}\n" for line in done.stdout.splitlines() if line.endswith(" µs"))
        return [Figure(**one) for one in json.loads(out.read_text())]


def main() -> None:
    """Start the measured processes under the guest, or be one."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rounds", type=int, default=300)
    options.add_argument("--step-ms", type=float, default=10.0)
    options.add_argument("--traceml", help="the interpreter of an environment that has traceml-ai and torch")
    options.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)
    options.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.inside:
        found = (beside_traceml if chosen.beside else alone)(Bench(chosen.step_ms), chosen.rounds)
        chosen.inside.write_text(json.dumps([asdict(one) for one in found]))
        return
    script = str(Path(__file__).resolve())
    how = ["--rounds", str(chosen.rounds), "--step-ms", str(chosen.step_ms)]
    for pure in ("", "1"):
        emit(measured([sys.executable, script, *how], pure))
    if chosen.traceml:
        with tempfile.TemporaryDirectory() as logs:
            program = str(Path(chosen.traceml).with_name("traceml"))
            emit(measured([program, "run", script, "--logs-dir", logs, "--args", *how, "--beside"]))


if __name__ == "__main__":
    main()
