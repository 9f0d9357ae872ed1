"""`gputune sweep-loader` against the exhaustive grid of the same run: regret, share of the grid's time, trials.

For each workload the sweep runs on the script as it is; then every cell of a grid of workers × prefetch is measured,
in an order by lot, in one process, so that all of this ends within half an hour. By hand a cell costs more: a start
of the script, as some that are made show it, and as long under its setting as the sweep spent on the one it chose. A
shorter look would tell the cell's rate less well than the choice's is known. The grid's time is the sum of that; beside
it stands the share of the time that the cells took in one process, the least that it can be.

The best cells, the sweep's choice and its rivals' are measured again, in turn. Whichever was the best in half of these
rounds is what the choice is held against in the others, and the other way round: the best of many noisy numbers is not
taken for the truth. With `--rivals PYTHON` (an interpreter that has optuna and ray) Optuna's TPE and Ray Tune's ASHA
get as long as the sweep took, starting the script for each trial.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sweep_workloads import WORKLOADS, script

HERE = Path(__file__).parent
WORKERS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12)
PREFETCHES = (1, 2, 3, 4, 8, 16)
FEWER = ((1, 2, 4, 8), (2, 8))  # with --small: to see that it works
STARTS = 2  # of the script, to see what one costs
FINALISTS, ROUNDS = 2, 6
SHARP, MOST = 0.01, 18  # half of the 95 % interval of a regret, up to which, and up to how many, rounds are added
LONGER = 2  # times the batches of a cell, in each of these rounds: they are what regret is told by
CALM = 0.05  # of the CPU time wanted: where the host of a virtual machine takes more of it, a round is made once more
SURE = 2.0  # standard errors to either side: 95 %
SEED = 3
NAMES = ("num_workers", "prefetch_factor", "pin_memory", "persistent_workers", "batch_size")
HEAD = """# Sweeps

Made by `make bench-sweep` on {cores} cores in {minutes:.0f} min, {date}. Regret: how far the choice is below the best
of the grid's {cells} cells, both measured again in turn: the best one by half of the rounds, held against the choice in
the others, and the other way round. Behind ±: half of the 95 % interval of its rate over that of the best of the
others; where that is above {sharp:.0%}, up to {most} rounds are made instead of {rounds}.

Share of the grid: the sweep's time, from Enter to the prompt, over that of trying every cell by hand: a start of the
script for each ({starts} real ones, {start:.1f} s) and as long under its setting as the sweep spent on its choice
({spent:.1f} s), for less would not tell a cell's rate as well. In brackets: over the time that the cells took here, one
after the other in one process, {seconds:g} s of timed batches each. Rates are known to {cell:.1%} (cells, by their
parts alone) and {choice:.1%} (choices, also by what visits differed by): half of the 95 % interval. Numbers in
this paragraph are medians. Trials: settings that were measured, the script's own and the ceiling counted. In the
rounds that regret is told by, the host of this virtual machine gave at most {stolen:.0%} of the CPU time wanted to
others; the columns "own" and "choice" have it as it came.

| workload | script's own | choice | best cell | gain | regret | trials | s | share of the grid | {rivals} |
|---|---|---|---|---|---|---|---|---|---|
"""
Cell = dict[str, object]
Round = dict[int, float]  # the place of a cell to its rate


@dataclass(kw_only=True)
class Row:
    """What came of one workload. Rates are samples/s; `unsure…` is half of a 95 % interval, relative."""

    workload: str
    baseline: float
    chosen: Cell
    best: Cell
    gain: float
    regret: float
    unsure_regret: float
    trials: int
    seconds: float
    share: float  # of the grid by hand
    share_at_least: float  # of the grid in one process
    a_start: float  # s
    stolen: float  # share of the CPU time, in the worst of the rounds that regret is told by
    took: float  # s, all of this
    on_choice: float  # s that the sweep spent on its choice
    unsure: float
    unsure_cell: float
    rivals: dict[str, dict[str, object]] = field(default_factory=dict)

    def line(self) -> str:
        """Return the row of the table."""
        others = ", ".join(
            f"{name} {each['regret']:.1%} in {each['trials']} trial{'s' if each['trials'] != 1 else ''}"
            if "regret" in each
            else f"{name}: no trial ended"
            for name, each in self.rivals.items()
        )
        return (
            f"| {self.workload} | {self.baseline:.4g} | {words(self.chosen)} | {words(self.best)} | ×{self.gain:.2f} "
            f"| {self.regret:.1%} ± {self.unsure_regret:.1%} | {self.trials} | {self.seconds:.0f} "
            f"| {self.share:.1%} ({self.share_at_least:.1%}) | {others} |\n"
        )


def measured(folder: Path, cells: Sequence[Cell], seconds: float) -> list[dict[str, float]]:
    """Return rate, its error and the time of each cell, in their order."""
    text = "".join(json.dumps(cell) + "\n" for cell in cells)
    command = [sys.executable, str(HERE / "sweep_cell.py"), str(seconds)]
    done = subprocess.run(command, input=text, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def a_start(folder: Path, cells: Sequence[Cell], seconds: float) -> float:
    """Return the s that a start of the script costs beside what happens under its setting."""
    costs = []
    for cell in cells:
        began = time.monotonic()
        found = measured(folder, [cell], seconds)
        costs.append(time.monotonic() - began - found[0]["took"])
    return statistics.fmean(costs)


def grid(*, small: bool) -> list[Cell]:
    """Return all cells."""
    workers, prefetches = FEWER if small else (WORKERS, PREFETCHES)
    return [{"num_workers": 0}, *({"num_workers": n, "prefetch_factor": p} for n in workers for p in prefetches)]


def swept(folder: Path) -> dict[str, object]:
    """Return the document of a sweep, with the s that it took from Enter to the prompt."""
    began = time.monotonic()
    command = [sys.executable, "-m", "gputune", "sweep-loader", "--python", sys.executable, "--json", "train.py"]
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True)
    return {**json.loads(done.stdout), "whole": time.monotonic() - began}


def on_choice(folder: Path, found: dict[str, object]) -> float:
    """Return the s that a sweep spent on what it chose, as its journal has it: all visits, or the start as it is."""
    row = dict_of(found["best"])
    kind = "setting " + " ".join(f"{n}={row[n]}" for n in NAMES if row[n] is not None and row[n] is not False)
    with (folder / str(found["folder"]) / "sweep.jsonl").open() as file:
        entries = [json.loads(line) for line in file]
    visits = [float(entry["seconds"]) for entry in entries if entry["kind"] == kind]
    return sum(visits) or sum(float(entry["looped"]) for entry in entries if entry["kind"] == "profile")


def unsure(found: dict[str, object]) -> float:
    """Return half of the 95 % interval of what a sweep chose, relative."""
    row = dict_of(found["best"])
    trials = found["trials"] if isinstance(found["trials"], list) else []
    chosen = next(t for t in trials if all(t[name] == row[name] for name in NAMES) and not t["replayed"])
    return float(chosen["high"] - chosen["low"]) / 2 / float(chosen["measured"])


def dict_of(what: object) -> dict[str, object]:
    """Return an object of a document."""
    return what if isinstance(what, dict) else {}


def settings_of(row: dict[str, object]) -> Cell:
    """Return the settings of a document's row as DataLoader takes them."""
    names = ("num_workers", "prefetch_factor") if row["num_workers"] else ("num_workers",)
    found = {name: row[name] for name in names}
    return {**found, "persistent_workers": True} if row["persistent_workers"] else found


def rivals(
    python: str, folder: Path, seconds: float, cells: Sequence[Cell], timed: float
) -> dict[str, dict[str, object]]:
    """Return what each rival chose in as many s, and how many trials it had."""
    command = [python, str(HERE / "sweep_rivals.py"), str(folder), str(seconds), str(timed), json.dumps(cells[1:])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return dict(json.loads(done.stdout.splitlines()[-1])) if done.returncode == 0 else {}


def finals(folder: Path, cells: Sequence[Cell], seconds: float, most: int = ROUNDS) -> tuple[list[Round], float]:
    """Return the rates of cells that are measured in turn: of each round, in an order by lot, of each cell.

    And the share of the CPU time that was stolen in the worst of these rounds. They are added to until the first cell's
    regret is known, or there are many: with that one and the best of the others so far, for the regret of those who are
    behind need not be known as well. Of rounds in which the host of a virtual machine took much of the CPU time as many
    more are made, and the calmest ones count.
    """
    kept: list[tuple[float, Round]] = []
    places = list(range(len(cells)))
    begin = 0
    while len(kept) < most and (not kept or unsure_regret([rates for _, rates in kept]) > SHARP):
        found = _rounds(folder, cells, places, seconds, range(begin, begin + ROUNDS))
        begin += ROUNDS + (disturbed := sum(stolen > CALM for stolen, _ in found))
        found += _rounds(folder, cells, places, seconds, range(begin - disturbed, begin))
        kept += sorted(found, key=lambda each: each[0])[:ROUNDS]
        rates = means([rates for _, rates in kept])
        places = [0, *sorted((place for place in rates if place), key=lambda place: -rates[place])[:FINALISTS]]
    return [rates for _, rates in kept], max(stolen for stolen, _ in kept)


def _rounds(
    folder: Path, cells: Sequence[Cell], places: Sequence[int], seconds: float, numbers: Sequence[int]
) -> list[tuple[float, Round]]:
    """Return of each round the share of the CPU time that was stolen, and the rates of the cells at these places."""
    lots = [random.Random(SEED + number).sample(places, len(places)) for number in numbers]
    rows = iter(measured(folder, [cells[place] for lot in lots for place in lot], seconds) if lots else ())
    found = []
    for lot in lots:
        seen = {place: next(rows) for place in lot}
        found.append((max(row["stolen"] for row in seen.values()), {place: seen[place]["rate"] for place in lot}))
    return found


def means(rounds: Sequence[Round]) -> Round:
    """Return the mean rates of the cells that were in all rounds."""
    places = set[int].intersection(*(set(rates) for rates in rounds))
    return {place: statistics.fmean(rates[place] for rates in rounds) for place in sorted(places)}


def regrets(rounds: Sequence[Round]) -> Round:
    """Return how far each cell is below the best; of those that were left out of some rounds, in the others."""
    everybody = max(map(len, rounds))
    return _regrets([rates for rates in rounds if len(rates) == everybody]) | _regrets(rounds)


def _regrets(rounds: Sequence[Round]) -> Round:
    """Return how far each cell is below the best: the best by half of the rounds, in the others, and the reverse."""
    halves = [means(rounds[half::2]) for half in (0, 1)]
    places = halves[0].keys() & halves[1].keys()
    found = dict.fromkeys(places, 0.0)
    for known, told in (halves, halves[::-1]):
        best = max(places, key=lambda place: known[place])
        for place in places:
            found[place] += (1 - told[place] / told[best]) / 2
    return found


def unsure_regret(rounds: Sequence[Round]) -> float:
    """Return half of the 95 % interval of how the choice, which is the first cell, stands to the best of the others."""
    rates = means(rounds)
    best = max((place for place in rates if place), key=lambda place: rates[place], default=0)
    ratios = [found[0] / found[best] for found in rounds]
    return SURE * statistics.stdev(ratios) / math.sqrt(len(ratios))


def one(name: str, options: argparse.Namespace) -> Row:
    """Return what came of one workload."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "train.py").write_text(script(WORKLOADS[name]))
        found = swept(folder)
        whole = float(str(found["whole"]))
        cells = grid(small=options.small)
        lot = random.Random(SEED).sample(cells, len(cells))
        rows = measured(folder, lot, options.seconds)
        start = a_start(folder, lot[:STARTS], options.seconds)
        others = rivals(options.rivals, folder, whole, cells, options.seconds) if options.rivals else {}
        top = [row["settings"] for row in sorted(rows, key=lambda row: -row["rate"])[:FINALISTS]]
        chosen = settings_of(dict_of(found["best"]))
        last: list[Cell] = []
        for cell in (chosen, *top, *(dict_of(each["settings"]) for each in others.values())):
            last += [cell] if cell and cell not in last else []
        rounds, stolen = finals(folder, last, LONGER * options.seconds, MOST)
        spent = on_choice(folder, found)
    behind = regrets(rounds)
    rates = means(rounds)
    baseline = float(str(dict_of(found["baseline"])["samples_per_s"]))
    trials = found["trials"] if isinstance(found["trials"], list) else []
    return Row(
        workload=name,
        baseline=baseline,
        chosen=chosen,
        best=last[max(rates, key=lambda place: rates[place])],
        gain=rates[0] / baseline,
        regret=behind[0],
        unsure_regret=unsure_regret(rounds),
        trials=len(trials) + (found["ceiling"] is not None),
        seconds=whole,
        share=whole / sum(start + max(row["took"], spent) for row in rows),
        share_at_least=whole / sum(row["took"] for row in rows),
        a_start=start,
        stolen=stolen,
        took=time.monotonic() - began,
        on_choice=spent,
        unsure=unsure(found),
        unsure_cell=SURE * statistics.median(row["error"] for row in rows),
        rivals={rival: held(each, last, behind) for rival, each in others.items()},
    )


def kept(name: str, options: argparse.Namespace) -> Row | None:
    """Return what came of a workload before, where it was kept."""
    file = _file(name, options) if options.keep else None
    return Row(**json.loads(file.read_text())) if file and file.exists() else None


def _file(name: str, options: argparse.Namespace) -> Path:
    return Path(options.keep) / f"{name.replace(' ', '-').replace(',', '')}.json"


def held(rival: dict[str, object], cells: Sequence[Cell], behind: Round) -> dict[str, object]:
    """Return what a rival chose with its regret, if it came to a choice."""
    chosen = dict_of(rival["settings"])
    return {**rival, "regret": behind[cells.index(chosen)]} if chosen else rival


def words(settings: Cell) -> str:
    """Return settings as `6 × 4`, workers and prefetch."""
    return f"{settings.get('num_workers')} × {settings.get('prefetch_factor', '–')}"


def summary(rows: Sequence[Row]) -> str:
    """Return what all workloads together show."""
    behind, shares, least = ([getattr(row, name) for row in rows] for name in ("regret", "share", "share_at_least"))
    theirs = ""
    for rival in dict.fromkeys(name for row in rows for name in row.rivals):
        found = [float(str(row.rivals[rival]["regret"])) for row in rows if "regret" in row.rivals.get(rival, {})]
        if found:
            theirs += (
                f" {rival}: median {statistics.median(found):.1%}, worst {max(found):.1%} ({len(found)} workloads)."
            )
    return (
        f"\nRegret: median {statistics.median(behind):.1%}, worst {max(behind):.1%}. Share of the grid's time: median "
        f"{statistics.median(shares):.1%}, worst {max(shares):.1%} (in one process {statistics.median(least):.1%}, "
        f"{max(least):.1%}). Trials: at most {max(row.trials for row in rows)}.\n"
        + (f"\nRegret of the others in the same time:{theirs}\n" if theirs else "")
    )


def main() -> None:
    """Measure, print, and write `benchmarks/sweep.md`."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--small", action="store_true", help="a few cells, to see that it works; writes nothing")
    options.add_argument("--only", action="append", help="only this workload, writes nothing: " + ", ".join(WORKLOADS))
    options.add_argument("--seconds", type=float, default=0.8, help="of timed batches in a cell")
    options.add_argument(
        "--keep", type=Path, help="a folder for each workload's row; those that are there are not made anew"
    )
    options.add_argument("--rivals", help="an interpreter that has optuna, ray[tune] and torch")
    chosen = options.parse_args()
    rows = []
    for name in chosen.only or WORKLOADS:
        rows.append(kept(name, chosen) or one(name, chosen))
        if chosen.keep:
            chosen.keep.mkdir(parents=True, exist_ok=True)
            _file(name, chosen).write_text(json.dumps(asdict(rows[-1])))
        print(rows[-1].line(), end="", file=sys.stderr, flush=True)
        print(json.dumps(asdict(rows[-1])), flush=True)
    print(summary(rows), file=sys.stderr)
    if not chosen.small and not chosen.only:
        head = HEAD.format(
            cells=len(grid(small=False)),
            sharp=SHARP,
            most=MOST,
            rounds=ROUNDS,
            seconds=chosen.seconds,
            starts=STARTS,
            cores=os.cpu_count(),
            minutes=sum(row.took for row in rows) / 60,
            stolen=max(row.stolen for row in rows),
            date=time.strftime("%Y-%m-%d"),
            start=statistics.median(row.a_start for row in rows),
            spent=statistics.median(row.on_choice for row in rows),
            cell=statistics.median(row.unsure_cell for row in rows),
            choice=statistics.median(row.unsure for row in rows),
            rivals="regret of others in the same time" if chosen.rivals else "",
        )
        (HERE / "sweep.md").write_text(head + "".join(row.line() for row in rows) + summary(rows))


if __name__ == "__main__":
    main()
