"""How much a real training is slowed by being watched at 10 Hz: toggled in one process, with an A/A control.

The training is `training.py`. Each four of blocks gives one difference, of the mean times of a step with and without;
the figure is their trimmed mean, its interval a bootstrap over the fours. With `--tool traceml` it runs under TraceML's
own interpreter and `traceml run`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TypeAlias

from common import Figure, emit, interval, trimmed

SLOWDOWN = 0.005  # budget
FOURS = 100  # of blocks: two minutes
LONG = 2.0  # median steps
Four: TypeAlias = list[tuple[bool, list[float]]]  # blocks in their order: on or off, and the times of the steps in s


def run(tool: str, python: str, fours: int, step_ms: float) -> list[Four]:
    """Run the training under a tool and return its blocks."""
    training = str(Path(__file__).with_name("training.py"))
    inner = ["--tool", tool, "--fours", str(fours), "--step-ms", str(step_ms)]
    with tempfile.TemporaryDirectory() as folder:
        if tool == "traceml":
            command = [str(Path(python).with_name("traceml")), "run", training, "--logs-dir", folder, "--args", *inner]
        else:
            gputune = str(Path(sys.executable).with_name("gputune"))
            command = [gputune, "watch", "--out", f"{folder}/run", "--", python, training, *inner]
        out, log = Path(folder, "steps.json"), Path(folder, "log")
        with log.open("w") as sink:
            environment = {**os.environ, "SLOWDOWN_OUT": str(out)}
            subprocess.run(command, env=environment, stdout=sink, stderr=sink, check=False, timeout=560)
        if not out.exists():
            raise SystemExit(f"the training under {tool} gave no figures:\n{log.read_text()[-2000:]}")
        return [[(on, times) for on, times in blocks] for blocks in json.loads(out.read_text())]


def cost(times: list[float]) -> float:
    """Return the mean time of a block's steps in s, a step of more than LONG medians counted as that.

    The mean, for a recorder that holds up one step in twelve is not in the median. The limit is far above what a beat
    takes, and below what others of the machine take from a step now and then.
    """
    longest = LONG * statistics.median(times)
    return statistics.fmean(min(time, longest) for time in times)


def differences(fours: list[Four]) -> tuple[list[float], list[float], list[float]]:
    """Return on against off (ratio - 1), off against off (the control), and on - off in s a step.

    The control is made the same way, of the four blocks that were off in two fours: outer against inner, as theirs.
    """
    effect, seconds, off = [], [], []
    for blocks in fours:
        with_it = [cost(times) for on, times in blocks if on]
        without = [cost(times) for on, times in blocks if not on]
        effect.append(sum(with_it) / sum(without) - 1)
        seconds.append((sum(with_it) - sum(without)) / 2)
        off.append(without)
    control = [(a + d) / (b + c) - 1 for (a, b), (c, d) in zip(off[::2], off[1::2], strict=False)]
    return effect, control, seconds


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tool", default="gputune", choices=["gputune", "traceml"])
    options.add_argument("--python", default=sys.executable, help="the interpreter that trains")
    options.add_argument("--fours", type=int, default=FOURS)
    options.add_argument("--step-ms", type=float, default=8.5)
    chosen = options.parse_args()
    effect, control, seconds = differences(run(chosen.tool, chosen.python, chosen.fours, chosen.step_ms))
    what = f"{chosen.tool}: slow-down of a training with steps of {chosen.step_ms:g} ms"
    emit(
        [
            Figure(what, "ratio", *interval(effect, trimmed), SLOWDOWN if chosen.tool == "gputune" else None),
            Figure(f"{chosen.tool}: A/A control of the line above", "ratio", *interval(control, trimmed)),
            Figure(f"{chosen.tool}: the same, per step", "s", *interval(seconds, trimmed)),
        ]
    )


if __name__ == "__main__":
    main()
