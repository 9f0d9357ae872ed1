"""How often `gputune compare` calls equal trainings different, and finds a change of 10 %: run by hand.

Ten kinds of short trainings (`compare_loop.py`), each RUNS times as it is and as often with what sets its pace 10 %
slower, in turn, under `gputune watch`. Of each kind and each side every other run is held against the rest: twenty
pairs of equal sides. As it is against slower are ten pairs of unequal ones. The same is asked of one run a side.

    compare_pairs.py [--runs 6] [--lanes 2] [--out FOLDER]

What was recorded stays in FOLDER, and is not run again where it is there already. Prints JSON lines as the other
benchmarks do, and before them what each pair came to, on stderr.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from common import Figure, emit
from compare_loop import KINDS

from gputune.comparing.comparison import FASTER, SLOWER, Comparison, compare
from gputune.comparing.sides import Side
from gputune.comparing.subject import subject
from gputune.core.isolation import own_python
from gputune.runs.one import kept

HERE = Path(__file__).parent
GPUTUNE = own_python("from gputune.__main__ import main; main()")
SIDES = {"as-it-is": 0.0, "slower": 1 / 0.9 - 1}  # of the time that it takes: the rate falls by 10 %
RUNS = 6
LANES = 2
EQUAL, UNEQUAL = 1, 9  # pairs of equal sides called different at the most, of unequal ones found at the least


def record(out: Path, runs: int, lanes: int) -> None:
    """Record what is not there yet, `lanes` kinds at a time."""
    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(lambda kind: rounds(out, kind, runs), KINDS))


def rounds(out: Path, kind: str, runs: int) -> None:
    """Record one kind: rounds of both sides in turn, now one first, now the other."""
    for number in range(runs):
        for side in list(SIDES)[:: 1 if number % 2 == 0 else -1]:
            folder = out / kind / side / str(number)
            if not (folder / "findings.json").exists():
                folder.parent.mkdir(parents=True, exist_ok=True)
                script = [sys.executable, str(HERE / "compare_loop.py"), kind, str(SIDES[side])]
                watch = [*GPUTUNE, "watch", "--quiet", "--no-stacks", "--out", str(folder), "--", *script]
                subprocess.run(watch, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def side(out: Path, kind: str, which: str, numbers: range) -> Side:
    """Return some runs of one kind as a side."""
    folders = [out / kind / which / str(number) for number in numbers]
    return Side(f"{kind} {which}", tuple(subject(kept(folder)) for folder in folders))


def told(what: str, found: Comparison) -> bool:
    """Say what a pair came to; return whether it was called different."""
    ratio = found.ratio
    interval = f"{ratio.likely:.3f} ({ratio.low:.3f} to {ratio.high:.3f})" if ratio else "-"
    spread = f", {found.spread:.1%} between runs" if found.basis == "runs" else ""
    print(f"{what:28} {found.state:15} {interval}{spread}", file=sys.stderr)
    return found.state in {FASTER, SLOWER}


def counts(out: Path, runs: int) -> list[Figure]:
    """Return how many pairs of each sort were called different."""
    halves = {"half": (range(0, runs, 2), range(1, runs, 2)), "one": (range(1), range(1, 2))}
    figures = []
    for name, (first, second) in halves.items():
        equal = [
            told(f"{kind} {which}, {name}", compare(side(out, kind, which, first), side(out, kind, which, second)))
            for kind, which in product(KINDS, SIDES)
        ]
        size = "one run" if name == "one" else f"{len(first)} runs"
        figures.append(count(f"equal pairs called different, {size} a side", sum(equal), len(equal), EQUAL))
    for some in (range(runs), range(1)):
        found = [
            compare(side(out, kind, "as-it-is", some), side(out, kind, "slower", some), anyway=True) for kind in KINDS
        ]
        different = [told(f"{kind} against slower", each) for kind, each in zip(KINDS, found, strict=True)]
        missed = len(different) - sum(different)
        size = "one run" if len(some) == 1 else f"{runs} runs"
        budget = len(different) - UNEQUAL if len(some) > 1 else None
        figures.append(
            count(f"pairs with a change of 10 % that were missed, {size} a side", missed, len(found), budget)
        )
    return figures


def count(name: str, value: int, of: int, budget: int | None) -> Figure:
    """Return a count as a figure: it is what it is."""
    return Figure(name, f"of {of}", value, value, value, budget)


def main() -> None:
    """Record and count."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=RUNS, help="of each kind as it is, and as many slower")
    options.add_argument("--lanes", type=int, default=LANES, help="trainings at a time")
    options.add_argument("--out", type=Path, help="where recordings stay; by default nowhere")
    chosen = options.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as nowhere:
        out = chosen.out or Path(nowhere)
        record(out, chosen.runs, chosen.lanes)
        emit(counts(out, chosen.runs))
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"{time.monotonic() - began:.0f} s; load average at the end: {load}", file=sys.stderr)


if __name__ == "__main__":
    main()
