"""`gputune watch --tune` on real loops: how long until it settles, what it brings, and what it costs from then on.

Each workload trains under `watch --tune`, as it is, until the tuning has come to an end and for some seconds beyond.
Then it goes on in turns with two trainings that no gputune knows of and that have the settings which were kept: against
one of them it is told what a step costs, and the other one is their control. Last the cells of a small grid are
measured in one process, and the script's own settings, those that were kept and the best two cells once more, in turn:
the best one by half of these rounds is what the kept one is held against in the others, and the other way round.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

from common import interval, trimmed
from sweep import Cell, Round, finals, means, measured, regrets, settings_of, unsure_regret, words
from sweep_workloads import WORKLOADS, script

HERE = Path(__file__).parent
CHOSEN = ("blocking, constant", "mixed", "JPEG")
WORKERS, PREFETCHES = (1, 2, 3, 4, 6, 8), (2, 8)
CELL_S = 0.8  # of timed batches in a cell
SETTLED_S = 4.0  # watched beyond the end of a tuning
LONGEST_S = 60.0  # until it has to have come to an end
UNTUNED_S = 3.5  # of batches before anything is tried
SKIPPED = 60  # batches after the last switch
TURNS, TURN_S, LEAST = 12, 0.6, 40  # of each training; s and batches of a turn that are timed
SEED = 5
UNTRIED, TRIED = {"healthy", "refused"}, {"kept", "unchanged", "lost"}
HEAD = """# Tuning while it trains

Made by `make bench-tune` on {cores} cores in {minutes:.0f} min, {date}. Samples/s before anything was tried and after
it had settled, in one training that went on; s and batches from its first batch until then. A step costs: what it takes
longer from then on, watched and served, than in a training of the same settings without gputune, {turns} turns of each,
behind it a third one's, without gputune as well (A/A; 95 % intervals). Gain and regret are of the kept settings in
rounds in turn with the script's own and with the best cells of a grid of {cells}, behind ± half of the 95 % interval of
its rate over that of the best cell; stolen by the host of a virtual machine, at most in a round.

| workload | untuned | tuned | kept | settled after | a step costs | gain | best cell | regret | stolen |
|---|---|---|---|---|---|---|---|---|---|
"""
Told: TypeAlias = tuple[float, float, float]  # a mean and its 95 % interval
Process: TypeAlias = "subprocess.Popen[str]"


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
    cost: Told | None  # s a step; None where it did not settle
    control: Told | None
    gain: float
    best: Cell
    regret: float
    unsure: float
    stolen: float

    def line(self) -> str:
        """Return the row of the table."""
        return (
            f"| {self.workload} | {self.untuned:.4g} | {self.tuned:.4g} | {words(self.kept)} ({self.state}) "
            f"| {self.settled_s:.0f} s, {self.settled_batches:,} batches "
            f"| {self._costs()} | ×{self.gain:.2f} | {words(self.best)} | {self.regret:.1%} ± {self.unsure:.1%} "
            f"| {self.stolen:.1%} |\n"
        )

    def _costs(self) -> str:
        """Return what a step costs, in words."""
        if self.cost is None or self.control is None:
            return "–"
        cost, low, high = (1e6 * seconds for seconds in self.cost)
        _, least, most = (1e6 * seconds for seconds in self.control)
        return f"{cost:+.0f} µs ({low:+.0f} to {high:+.0f}; A/A {least:+.0f} to {most:+.0f})"


@contextlib.contextmanager
def started(folder: Path, *command: str) -> Iterator[Process]:
    """Start a training that is told its turns, and have it end by itself."""
    pipe = subprocess.PIPE
    with subprocess.Popen([*command], cwd=folder, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield process
            if process.stdin:
                process.stdin.close()
            process.wait(60)
        finally:
            if process.poll() is None:
                process.terminate()


def settled(folder: Path, process: Process) -> None:
    """Wait until a tuning has settled, and a while; then have it train in turns."""
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until and process.poll() is None and not ended(tuned_in(folder / "run" / "live.json")):
        time.sleep(0.2)
    time.sleep(SETTLED_S)
    (folder / "stop").touch()


def ended(told: dict[str, object]) -> bool:
    """Return whether a tuning has come to an end, and says what serves from then on."""
    return told.get("state") in UNTRIED or (told.get("state") in TRIED and told.get("now") is not None)


def tuned_in(file: Path) -> dict[str, object]:
    """Return what a run says of its tuning by now, nothing where it says nothing yet."""
    try:
        told = json.loads(file.read_text())["whole"]["tuned"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(told) if isinstance(told, dict) else {}


def rate(times: Sequence[float], batch: int) -> float:
    """Return the samples/s of batches by their moments."""
    return (len(times) - 1) * batch / (times[-1] - times[0])


def turn(process: Process, batches: int, skip: int) -> float:
    """Have a training do so many batches; return the s that each took, but for those that lay ready."""
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("it was started without pipes")
    process.stdin.write(f"{skip + batches}\n")
    process.stdin.flush()
    times = json.loads(process.stdout.readline())
    return float(times[-1] - times[skip - 1]) / batches


def costs(trainings: Sequence[Process], kept: Cell, usual: float) -> tuple[Told, Told]:
    """Return the s by which a step of the first one takes longer than of the second, and of the third likewise.

    `usual` is about what a batch takes (s).
    """
    batches = max(LEAST, round(TURN_S / usual))
    skip = 5 + int(str(kept.get("num_workers", 0))) * int(str(kept.get("prefetch_factor") or 0))
    chance = random.Random(SEED)
    over, control = [], []
    for number in range(1 + TURNS):
        lot = chance.sample(range(len(trainings)), len(trainings))
        took = {place: turn(trainings[place], batches, skip) for place in lot}
        if number:  # in the first turn workers begin
            over.append(took[0] - took[1])
            control.append(took[2] - took[1])
    return interval(over, trimmed), interval(control, trimmed)


def one(name: str) -> Row:
    """Return what came of one workload."""
    batch = WORKLOADS[name].batch
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "train.py").write_text(script(WORKLOADS[name]))
        shutil.copy(HERE / "tune_loop.py", folder)
        loop = (sys.executable, "tune_loop.py")
        gputune = (sys.executable, "-m", "gputune", "watch", "--tune", "--quiet", "--out", str(folder / "run"), "--")
        with started(folder, *gputune, *loop) as tuned:
            settled(folder, tuned)
            told = tuned_in(folder / "run" / "live.json")
            kept = settings(told)
            with started(folder, *loop, json.dumps(kept)) as first, started(folder, *loop, json.dumps(kept)) as second:
                times = moments(folder / "times.json")
                since = int(str(told.get("since_batch") or 0))
                after = times[min(since + SKIPPED, len(times) - 2) :]
                cost, control = (
                    costs([tuned, first, second], kept, batch / rate(after, batch)) if ended(told) else (None, None)
                )
        rounds, last, stolen = against_a_grid(folder, kept)
    rates = means(rounds)
    return Row(
        workload=name,
        state=str(told.get("state")),
        untuned=rate([t for t in times[5:] if t < times[0] + UNTUNED_S], batch),
        tuned=rate(after, batch),
        kept=kept,
        settled_s=times[min(since, len(times) - 1)] - times[0],
        settled_batches=since,
        cost=cost,
        control=control,
        gain=rates[0] / rates[last.index({"num_workers": 0})],
        best=last[max(rates, key=lambda place: rates[place])],
        regret=regrets(rounds)[0],
        unsure=unsure_regret(rounds),
        stolen=stolen,
    )


def settings(told: dict[str, object]) -> Cell:
    """Return the settings that serve: what was kept, else the script's own."""
    now = told.get("now") or told.get("own")
    return settings_of(now if isinstance(now, dict) else {"num_workers": 0, "persistent_workers": False})


def moments(file: Path) -> list[float]:
    """Return when batches came while it trained freely, once that is written."""
    until = time.monotonic() + LONGEST_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError, ValueError):
            return [float(moment) for moment in json.loads(file.read_text())]
        time.sleep(0.1)
    raise SystemExit("the training did not stop")


def against_a_grid(folder: Path, kept: Cell) -> tuple[list[Round], list[Cell], float]:
    """Return rounds of the kept settings and of others, which these were, and the worst share that was stolen."""
    found = measured(folder, grid(), CELL_S)
    top = [row["settings"] for row in sorted(found, key=lambda row: -row["rate"])[:2]]
    last: list[Cell] = []
    for cell in (kept, *top, {"num_workers": 0}):
        last += [cell] if cell not in last else []
    rounds, stolen = finals(folder, last, CELL_S)
    return rounds, last, stolen


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
        date = time.strftime("%Y-%m-%d")
        head = HEAD.format(cores=os.cpu_count(), minutes=minutes, date=date, cells=len(grid()), turns=TURNS)
        (HERE / "tune.md").write_text(head + "".join(row.line() for row in rows))


if __name__ == "__main__":
    main()
