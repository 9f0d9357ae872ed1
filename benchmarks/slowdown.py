"""How much a real training is slowed by being watched at 10 Hz: toggled in one process, with an A/A control.

The training is `training.py`. With `--tool traceml` it runs under TraceML's own interpreter and `traceml run`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from common import emit, figure

SLOWDOWN = 0.005  # budget


def run(tool: str, python: str, quads: int, step_ms: float) -> list[float]:
    """Run the training under a tool and return the medians of its blocks, in s."""
    training = str(Path(__file__).with_name("training.py"))
    inner = ["--tool", tool, "--quads", str(quads), "--step-ms", str(step_ms)]
    with tempfile.TemporaryDirectory() as folder:
        if tool == "traceml":
            command = [str(Path(python).with_name("traceml")), "run", training, "--logs-dir", folder, "--args", *inner]
        else:
            gputune = str(Path(sys.executable).with_name("gputune"))
            command = [gputune, "watch", "--out", f"{folder}/run", "--", python, training, *inner]
        out, log = Path(folder, "medians.json"), Path(folder, "log")
        with log.open("w") as sink:
            environment = {**os.environ, "SLOWDOWN_OUT": str(out)}
            subprocess.run(command, env=environment, stdout=sink, stderr=sink, check=False, timeout=560)
        if not out.exists():
            raise SystemExit(f"the training under {tool} gave no figures:\n{log.read_text()[-2000:]}")
        return list(json.loads(out.read_text()))


def differences(medians: list[float]) -> tuple[list[float], list[float], list[float]]:
    """Return per quad: on against off (ratio - 1), off against off (the control), and on - off in s a step."""
    effect, control, seconds = [], [], []
    for on1, off1, off2, on2 in zip(*[iter(medians)] * 4, strict=True):
        off = (off1 + off2) / 2
        effect.append((on1 + on2) / 2 / off - 1)
        control.append(off1 / off2 - 1)
        seconds.append((on1 + on2) / 2 - off)
    return effect, control, seconds


def main() -> None:
    """Run and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tool", default="gputune", choices=["gputune", "traceml"])
    options.add_argument("--python", default=sys.executable, help="the interpreter that trains")
    options.add_argument("--quads", type=int, default=40)
    options.add_argument("--step-ms", type=float, default=8.5)
    chosen = options.parse_args()
    effect, control, seconds = differences(run(chosen.tool, chosen.python, chosen.quads, chosen.step_ms))
    what = f"{chosen.tool}: slow-down of a training with steps of {chosen.step_ms:g} ms"
    emit(
        [
            figure(what, "ratio", effect, SLOWDOWN if chosen.tool == "gputune" else None),
            figure(f"{chosen.tool}: A/A control of the line above", "ratio", control),
            figure(f"{chosen.tool}: the same, per step", "s", seconds),
        ]
    )


if __name__ == "__main__":
    main()
