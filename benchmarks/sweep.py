"""`gputune sweep-loader` against the exhaustive grid of the same run: regret, share of the grid's time, trials.

For each workload the sweep runs on the script as it is; then every cell of a grid of workers × prefetch is measured, in
an order by lot, in one process (a cell then costs no start of Python: the grid's time is the least that it can be). The
best cells and the sweep's choice are measured again, in turn, so that the best of many noisy numbers is not taken for
the truth. With `--rivals PYTHON` (an interpreter that has optuna and ray) Optuna's TPE and Ray Tune's ASHA get as long
as the sweep took, starting the script for each trial.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sweep_workloads import WORKLOADS, script

HERE = Path(__file__).parent
WORKERS = (1, 2, 3, 4, 5, 6, 8, 10, 12)
PREFETCHES = (1, 2, 3, 4, 6, 8, 16)
FEWER = ((1, 2, 4, 8), (2, 8))  # with --small: to see that it works
FINALISTS, ROUNDS = 4, 4
SEED = 3
HEAD = """# Sweeps

Made by `make bench-sweep` ({cells} cells a workload, {seconds} s a cell) on {cores} cores, {date}.
The machine is shared; trust ratios. Regret: how far the choice is below the best cell, both measured again in turn.
Share: of the time that the grid took.

| workload | script's own | choice | best cell | gain | regret | starts | s | share of the grid | {rivals} |
|---|---|---|---|---|---|---|---|---|---|
"""


def measured(folder: Path, cells: list[dict[str, object]], seconds: float) -> list[dict[str, float]]:
    """Return rate and time of each cell, in their order."""
    text = "".join(json.dumps(cell) + "\n" for cell in cells)
    command = [sys.executable, str(HERE / "sweep_cell.py"), str(seconds)]
    done = subprocess.run(command, input=text, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def grid(small: bool) -> list[dict[str, object]]:  # noqa: FBT001 - a switch, handed through
    """Return all cells."""
    workers, prefetches = FEWER if small else (WORKERS, PREFETCHES)
    return [{"num_workers": 0}, *({"num_workers": n, "prefetch_factor": p} for n in workers for p in prefetches)]


def swept(folder: Path) -> dict[str, object]:
    """Return the document of a sweep, with the s that it took from Enter to the prompt."""
    began = time.monotonic()
    command = [sys.executable, "-m", "gputune", "sweep-loader", "--python", sys.executable, "--json", "train.py"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return {**json.loads(done.stdout), "whole": time.monotonic() - began}


def settings_of(row: dict[str, object]) -> dict[str, object]:
    """Return the settings of a document's row as DataLoader takes them."""
    names = ("num_workers", "prefetch_factor") if row["num_workers"] else ("num_workers",)
    found = {name: row[name] for name in names}
    return {**found, "persistent_workers": True} if row["persistent_workers"] else found


def rivals(python: str, folder: Path, seconds: float, small: bool) -> dict[str, dict[str, object]]:  # noqa: FBT001 - as above
    """Return what each rival chose in as many s, and how many trials it had."""
    command = [python, str(HERE / "sweep_rivals.py"), str(folder), str(seconds), json.dumps(grid(small)[1:])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return dict(json.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else {}


def one(name: str, options: argparse.Namespace) -> dict[str, object]:
    """Return what came of one workload."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "train.py").write_text(script(WORKLOADS[name]))
        found = swept(folder)
        cells = grid(options.small)
        random.Random(SEED).shuffle(cells)
        rows = measured(folder, cells, options.seconds)
        others = rivals(options.rivals, folder, float(str(found["whole"])), options.small) if options.rivals else {}
        best = found["best"]
        chosen = settings_of(best if isinstance(best, dict) else {})
        top = [row["settings"] for row in sorted(rows, key=lambda row: -row["rate"])[:FINALISTS]]
        finals = [chosen, *top, *(each["settings"] for each in others.values())]
        again = measured(folder, [cell for _ in range(ROUNDS) for cell in finals], options.seconds)
        rates = [statistics.fmean(row["rate"] for row in again[n :: len(finals)]) for n in range(len(finals))]
    truth = max(rates)
    took = sum(row["took"] for row in rows)
    baseline = found["baseline"]["samples_per_s"] if isinstance(found["baseline"], dict) else 0.0
    return {
        "workload": name,
        "baseline": baseline,
        "chosen": chosen,
        "best": finals[rates.index(truth)],
        "gain": rates[0] / baseline,
        "regret": 1 - rates[0] / truth,
        "starts": found["starts"],
        "seconds": found["whole"],
        "share": float(str(found["whole"])) / took,
        "rivals": {
            rival: {**each, "regret": 1 - rates[1 + FINALISTS + n] / truth}
            for n, (rival, each) in enumerate(others.items())
        },
    }


def words(settings: object) -> str:
    """Return settings as `6 × 4`, workers and prefetch."""
    found = settings if isinstance(settings, dict) else {}
    return f"{found.get('num_workers')} × {found.get('prefetch_factor', '–')}"


def line(row: dict[str, object]) -> str:
    """Return the row of a workload."""
    others = row["rivals"] if isinstance(row["rivals"], dict) else {}
    shown = ", ".join(f"{name} {each['regret']:.1%} in {each['trials']} trials" for name, each in others.items())
    return (
        f"| {row['workload']} | {row['baseline']:.4g} | {words(row['chosen'])} | {words(row['best'])} "
        f"| ×{row['gain']:.2f} | {row['regret']:.1%} | {row['starts']} | {row['seconds']:.0f} "
        f"| {row['share']:.1%} | {shown} |\n"
    )


def main() -> None:
    """Measure, print, and write `benchmarks/sweep.md`."""
    import os  # noqa: PLC0415 - for one number

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="a few cells, to see that it works; writes nothing")
    options.add_argument("--only", action="append", help="only this workload: " + ", ".join(WORKLOADS))
    options.add_argument("--seconds", type=float, default=1.5, help="of timed batches in a cell")
    options.add_argument("--rivals", help="an interpreter that has optuna, ray[tune] and torch")
    chosen = options.parse_args()
    rows = []
    for name in chosen.only or WORKLOADS:
        rows.append(one(name, chosen))
        print(line(rows[-1]), end="", file=sys.stderr, flush=True)
        print(json.dumps(rows[-1]), flush=True)
    regrets = [float(str(row["regret"])) for row in rows]
    shares = [float(str(row["share"])) for row in rows]
    summary = (
        f"\nRegret: median {statistics.median(regrets):.2%}, worst {max(regrets):.2%}; share of the grid's time: "
        f"median {statistics.median(shares):.1%}, worst {max(shares):.1%}.\n"
    )
    print(summary, file=sys.stderr)
    if not chosen.small and not chosen.only:
        head = HEAD.format(
            cells=len(grid(small=False)),
            seconds=chosen.seconds,
            cores=os.cpu_count(),
            date=time.strftime("%Y-%m-%d"),
            rivals="in the same time" if chosen.rivals else "",
        )
        (HERE / "sweep.md").write_text(head + "".join(map(line, rows)) + summary)


if __name__ == "__main__":
    main()
