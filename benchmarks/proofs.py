"""`prove` and `sweep-loader` against bare runs of both settings, on ten loops on a simulated card.

    python tests/simcuda/run.py --no-spin --slower 1 -- python benchmarks/proofs.py --slower 1 [--only WORD]

Each loop is watched, its finding proved, its loader swept; after either it runs bare, with its own settings and with
those that were chosen in turn, `--seconds` of each in three runs, the device caught up at both ends. What gputune said
may be off by 3 %. Where equal bare runs differ by more, nothing is known, and that is said. On a host that is several
times slower than others, card and loops have to be so too, or all of them are bound by what the host launches.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gpu_day import environment, no_card, simulated
from gpuday.boxes import Box, taken
from gpuday.check import NOT_HELD, Check, Step
from gpuday.day import Day, find_gputune
from gpuday.windows import proved, swept

HERE = Path(__file__).resolve().parent
LOOP = HERE / "proofs_loop.py"
LOOPS = {  # a finding that a loader's setting mends, if there is one, and the loop
    "waiting": ("few-workers", "--waits 0.6"),
    "waiting-item": ("few-workers", "--waits 0.6 --item"),
    "waiting-pinned": ("few-workers", "--waits 1.5 --pin-memory 1 --num-workers 2"),
    "waiting-small": ("few-workers", "--waits 6 --batch-size 8 --deep 4"),
    "waiting-large": ("few-workers", "--waits 0.3 --batch-size 128 --deep 4"),
    "computing": ("few-workers", "--computes 0.3 --num-workers 0"),
    "both": ("few-workers", "--waits 0.5 --computes 0.1"),
    "pageable": ("unpinned-memory", "--size 131072 --batch-size 64 --num-workers 2 --deep 1"),
    "pageable-item": ("unpinned-memory", "--size 131072 --batch-size 64 --num-workers 2 --deep 1 --item"),
    "enough": ("", "--waits 0.1 --num-workers 3 --pin-memory 1"),
}
STEP_S = 600.0
SLICES = 3


@dataclass(frozen=True)
class Loops(Day):
    """A day whose trainings are the loops, which wait and compute so many times as long."""

    slower: int = 1

    def training(self, kind: str, *options: str) -> list[str]:
        """Return the command of a loop; options after its own ones replace them."""
        return [self.python, str(LOOP), *LOOPS[kind][1].split(), f"--slower={self.slower}", *options]


def steps(kind: str, seconds: float) -> list[Step]:
    """Return what is tried on a loop."""
    finding = LOOPS[kind][0]
    rates = tuple(f"{kind}: sweep's rate of the {which} settings" for which in ("own", "best"))
    bare = seconds / SLICES, SLICES
    proof = [Step((f"{kind}: prove's gain",), 1.0, proved(kind, finding, *bare, pairs=2))] if finding else []
    return [*proof, Step(rates, 1.0, swept(kind, *bare))]


def line(check: Check) -> str:
    """Return a row as it is read."""
    value = f"{check.value:+.1f} {check.unit}" if isinstance(check.value, float) else "-"
    return f"{check.name:48} {value:>9}  {check.verdict:8}  {check.note}"


def main() -> int:
    """Try what is asked for. Returns 1 if something did not hold, 77 where there is no card."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", default="", help="loops whose name contains this, or ends so: `NAME.`")
    options.add_argument("--seconds", type=float, default=30.0, help="bare, of either setting")
    options.add_argument("--slower", type=int, default=1, help="as `run.py --slower` has it of the card")
    options.add_argument("--results", type=Path, help="where the rows go, as JSON")
    asked = options.parse_args()
    if why := no_card():
        print(f"proofs: {why}", file=sys.stderr)
        return 77
    made: list[Check] = []
    with tempfile.TemporaryDirectory(prefix="proofs-") as folder:
        environ = environment(Path(folder) / "site")
        gputune, why = find_gputune(environ)
        for kind in LOOPS:
            if asked.only in f"{kind}.":
                day = Loops(
                    Path(folder), gputune, why, simulated=simulated(), box=Box(STEP_S), environment=environ,
                    slower=asked.slower,
                )  # fmt: skip
                for check in taken(kind, steps(kind, asked.seconds), day, day.box):
                    made.append(check)
                    print(line(check), flush=True)
    if asked.results:
        about = {"made": time.strftime("%Y-%m-%d"), "cpus": os.cpu_count(), "seconds": asked.seconds}
        asked.results.write_text(json.dumps({**about, "checks": [check.row() for check in made]}, indent=1) + "\n")
    return int(any(check.verdict == NOT_HELD for check in made))


if __name__ == "__main__":
    sys.exit(main())
