"""`gputune watch --tune` on real loops: how long until it settles, and what it brings.

Each workload trains under `watch --tune`, as it is, until the tuning has come to an end and for some seconds beyond.
Then the cells of a small grid are measured in one process, and the script's own settings, those that were kept and the
best two cells once more, in turn: the best one by half of these rounds is what the kept one is held against in the
others, and the other way round.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from sweep import Cell, finals, measured, regrets, settings_of, unsure_regret, words
from sweep_workloads import WORKLOADS, script

HERE = Path(__file__).parent
CHOSEN = ("blocking, constant", "mixed", "JPEG")
WORKERS, PREFETCHES = (1, 2, 3, 4, 6, 8), (2, 8)
CELL_S = 1.0  # of timed batches in a cell
SETTLED_S = 8.0  # watched beyond the end of a tuning
LONGEST_S = 120.0  # until it has to have come to an end
UNTUNED_S = 3.5  # of batches before anything is tried
SKIPPED = 60  # batches after the last switch
ENDS = {"healthy", "kept", "unchanged", "refused", "lost"}
HEAD = """# Tuning while it trains

Made by `make bench-tune` on {cores} cores in {minutes:.0f} min, {date}. Samples/s before anything was tried and after
it had settled, in one training that went on; s and batches from its first batch until then. Gain and regret are of the
kept settings in rounds in turn with the script's own and with the best cells of a grid of {cells}, behind ± half of the
95 % interval of its rate over that of the best cell; stolen by the host of a virtual machine, at most in a round.

| workload | untuned | tuned | kept | settled after | gain | best cell | regret | stolen |
|---|---|---|---|---|---|---|---|---|
"""


@dataclass(kw_only=True)
class Row:
    """What came of one workload: samples/s, s, and settings."""

    workload: str
    state: str
    untuned: float
    tuned: float
    kept: Cell
    settled_s: float
    settled_batches: int
    gain: float
    best: Cell
    regret: float
    unsure: float
    stolen: float

    def line(self) -> str:
        """Return the row of the table."""
        return (
            f"| {self.workload} | {self.untuned:.4g} | {self.tuned:.4g} | {words(self.kept)} ({self.state}) "
            f"| {self.settled_s:.0f} s, {self.settled_batches:,} batches | ×{self.gain:.2f} | {words(self.best)} "
            f"| {self.regret:.1%} ± {self.unsure:.1%} | {self.stolen:.1%} |\n"
        )


def course(folder: Path) -> tuple[dict[str, object], list[float]]:
    """Train under `watch --tune` until it has settled, and beyond; return what was tuned, and when batches came."""
    shutil.copy(HERE / "tune_loop.py", folder)
    out = folder / "run"
    command = [sys.executable, "-m", "gputune", "watch", "--tune", "--quiet", "--out", str(out), "--"]
    process = subprocess.Popen([*command, sys.executable, "tune_loop.py"], cwd=folder)
    try:
        until = time.monotonic() + LONGEST_S
        while time.monotonic() < until and process.poll() is None and state(out / "live.json") not in ENDS:
            time.sleep(0.2)
        time.sleep(SETTLED_S)
        (folder / "stop").touch()
        process.wait(60)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    tuned = json.loads((out / "findings.json").read_text())["tuned"]
    return tuned, json.loads((folder / "times.json").read_text())


def state(file: Path) -> str:
    """Return how the tuning stands, "" where that is not told yet."""
    try:
        return str(json.loads(file.read_text())["whole"]["tuned"]["state"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def rate(times: list[float], batch: int) -> float:
    """Return the samples/s of batches by their moments."""
    return (len(times) - 1) * batch / (times[-1] - times[0])


def one(name: str) -> Row:
    """Return what came of one workload."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "train.py").write_text(script(WORKLOADS[name]))
        tuned, times = course(folder)
        since = tuned["since_batch"] if isinstance(tuned["since_batch"], int) else 0
        now = tuned["now"] or tuned["own"]
        kept = settings_of(now if isinstance(now, dict) else {"num_workers": 0, "persistent_workers": False})
        cells = grid()
        found = measured(folder, cells, CELL_S)
        top = [row["settings"] for row in sorted(found, key=lambda row: -row["rate"])[:2]]
        last: list[Cell] = []
        for cell in (kept, *top, {"num_workers": 0}):
            last += [cell] if cell not in last else []
        rounds, stolen = finals(folder, last, CELL_S)
    rates = [statistics.fmean(each) for each in zip(*rounds, strict=True)]
    best = rates.index(max(rates))
    batch = WORKLOADS[name].batch
    untuned = [t for t in times[5:] if t < times[0] + UNTUNED_S]
    return Row(
        workload=name,
        state=str(tuned["state"]),
        untuned=rate(untuned, batch),
        tuned=rate(times[min(since + SKIPPED, len(times) - 2) :], batch),
        kept=kept,
        settled_s=times[min(since, len(times) - 1)] - times[0],
        settled_batches=since,
        gain=rates[0] / rates[last.index({"num_workers": 0})],
        best=last[best],
        regret=regrets(rounds)[0],
        unsure=unsure_regret(rounds, best),
        stolen=stolen,
    )


def grid() -> list[Cell]:
    """Return the cells."""
    return [{"num_workers": 0}, *({"num_workers": n, "prefetch_factor": p} for n in WORKERS for p in PREFETCHES)]


def main() -> None:
    """Measure, print, and write `benchmarks/tune.md`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", action="append", choices=CHOSEN, help="only this workload; writes nothing")
    only = options.parse_args().only
    began = time.monotonic()
    rows = []
    for name in CHOSEN:
        if not only or name in only:
            rows.append(one(name))
            print(rows[-1].line(), end="", file=sys.stderr, flush=True)
            print(json.dumps(asdict(rows[-1])), flush=True)
    if not only:
        minutes = (time.monotonic() - began) / 60
        head = HEAD.format(cores=os.cpu_count(), minutes=minutes, date=time.strftime("%Y-%m-%d"), cells=len(grid()))
        (HERE / "tune.md").write_text(head + "".join(row.line() for row in rows))


if __name__ == "__main__":
    main()
