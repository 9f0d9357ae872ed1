"""Runs every benchmark and writes `benchmarks/results.md` and `results.json`: one row a figure, with its budget.

A budget is compared with the upper end of the 95 % interval. A slow-down whose A/A control excludes zero is void.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from common import PLAIN, YARDSTICK, Figure

HERE = Path(__file__).parent
OURS = ("fixed_cost", "guest_cost", "slowdown", "recorder_cost", "recording_size", "verdict_time", "time_to_verdict")
SHARE = "share of a core"
HEAD = """# Results

Made by `make bench` on {cpu}, {cores} cores, {memory:.0f} GiB, Linux {kernel}, CPython {python}, {date}.
The machine is shared; trust ratios. Value: median; interval: bootstrap, 95 %; a budget holds if the upper end keeps it.
Slow-down: one process, watching switched on and off in fours of short blocks (on, off, off, on or the reverse, by lot),
the training bound to one CPU throughout. Of a block the mean step (one of more than twice the median counted as that),
of a four one paired difference, of all fours the trimmed mean, and a bootstrap over the fours. Its A/A control is made
the same way of blocks that were off; where that excludes 0, the line above it is void. Recorder: windows of 5 s, which
hold each beat of up to 5 s equally often. In place: only what a tool adds to a step is timed, after ms of work on other
data, with and without the tools by turns; TraceML as its manual has it (`init(mode="auto")`, `trace_step`).
{yardstick}
| what | value | 95 % interval | budget | holds | in yardsticks |
|---|---|---|---|---|---|
"""
ABOUT = """
Yardstick: `python -I -S -c pass` takes {yardstick} on this machine. What it took where the budgets were written is not
known, only that `python -c pass` took 11 ms there; here it takes {plain}. The last column is the value over the
yardstick (a share of a core: what it uses in a second), for comparing machines; `holds` is about what was measured.
"""


def run(name: str, *arguments: str) -> list[Figure]:
    """Run one benchmark; return its figures, none where it failed (said on stderr)."""
    began = time.monotonic()
    command = [sys.executable, str(HERE / f"{name}.py"), *arguments]
    # as installed: pip compiles what it installs, and Python keeps what it has compiled
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=environment)
    print(f"{name} {' '.join(arguments)}: {time.monotonic() - began:.0f} s", file=sys.stderr)
    if done.returncode:
        print(f"{name} failed with status {done.returncode}", file=sys.stderr)
    return [Figure(**json.loads(line)) for line in done.stdout.splitlines() if line.startswith("{")]


def amount(value: float, unit: str) -> str:
    """Return a figure as a person reads it."""
    if unit == "s" and abs(value) < 1e-3:
        return f"{value * 1e6:.2f} µs"
    if unit == "s" and abs(value) < 1:
        return f"{value * 1e3:.1f} ms"
    if unit == "ratio":
        return f"{value:.2%}"
    return f"{value:.3g} {unit}"


def in_yardsticks(one: Figure, yardstick: float | None) -> str:
    """Return an amount that is held against a budget, over the time that a bare interpreter takes on this machine."""
    if yardstick is None or one.budget is None or not (one.unit == "s" or SHARE in one.name):
        return ""
    if one.budget >= 1:  # s: waited for, not computed
        return ""
    return f"{one.value / yardstick:.3g}" + (" /s" if SHARE in one.name else "")


def row(one: Figure, yardstick: float | None) -> str:
    """Return the row of one figure."""
    budget = "" if one.budget is None else f"≤ {amount(one.budget, one.unit)}"
    holds = "" if one.budget is None else ("yes" if one.holds else "**no**")
    interval = f"{amount(one.low, one.unit)} … {amount(one.high, one.unit)}"
    name = one.name + (f" ({one.note})" if one.note else "")
    relative = in_yardsticks(one, yardstick)
    return f"| {name} | {amount(one.value, one.unit)} | {interval} | {budget} | {holds} | {relative} |\n"


def table(figures: list[Figure]) -> str:
    """Return all rows, and before them what they were measured on."""
    found = {one.name: one.value for one in figures}
    yardstick, about = found.get(YARDSTICK), ""
    if yardstick is not None and PLAIN in found:
        about = ABOUT.format(yardstick=amount(yardstick, "s"), plain=amount(found[PLAIN], "s"))
    head = HEAD.format(
        cpu=cpu_model(),
        cores=os.cpu_count(),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30,
        kernel=platform.release().split("-")[0],
        python=platform.python_version(),
        date=time.strftime("%Y-%m-%d"),
        yardstick=about,
    )
    return head + "".join(row(one, yardstick) for one in figures)


def cpu_model() -> str:
    """Return the processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main() -> None:
    """Run, print and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--traceml", help="the interpreter of an environment that has traceml-ai and torch")
    options.add_argument("--only", action="append", help="make only these anew: " + ", ".join(OURS))
    chosen = options.parse_args()
    figures: list[Figure] = []
    beside = ["--traceml", chosen.traceml] if chosen.traceml else []
    for name in chosen.only or OURS:
        figures += run(name, *(beside if name == "guest_cost" else []))
    if chosen.traceml and (not chosen.only or "slowdown" in chosen.only):
        figures += run("slowdown", "--tool", "traceml", "--python", chosen.traceml)
    if chosen.only:
        figures = merged(figures)
    text = table(figures)
    print(text)
    (HERE / "results.md").write_text(text)
    (HERE / "results.json").write_text(json.dumps([f.__dict__ for f in figures], indent=1) + "\n")


def merged(figures: list[Figure]) -> list[Figure]:
    """Return the figures of the last run with those that were made anew in their places."""
    kept = {f.name: f for f in (Figure(**row) for row in json.loads((HERE / "results.json").read_text()))}
    return list((kept | {f.name: f for f in figures}).values())


if __name__ == "__main__":
    main()
