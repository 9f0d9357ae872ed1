"""Judge gputune by the zoo: `python tests/zoo/judge.py [--only few] [--rounds 2] [--most 5] [--bare] [--keep DIR]`.

Each script runs under `gputune watch`, then with exactly the change that the top finding proposes where the script has
such settings, else as its repaired twin (`--fixed`), which is watched as well; alternating, one at a time, for they are
timed. What the change realised is taken from the scripts' own clock (kit.py). A run during which somebody else used the
CPUs is repeated, and so is, once, a script that failed; and rounds are added until what was realised is known.
`--keep DIR` keeps the recordings, and those of the twins (`NAME-0-twin`: what the change did in truth), `--resume` goes
on where they end, and `--again DIR` judges them anew without running anything: what a change of the model does to every
case is seen within seconds. `--loaded N` has N busy neighbours on the CPUs.
The table and its totals go to stdout, everything to results.json; the exit status is 1 below the bars of docs/zoo.md.

Over 300 lines because a run, its twin and what is made of them are one experiment, and scripts here share no package.
"""

import argparse
import ast
import contextlib
import itertools
import json
import math
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from gains import Gain, ideal, lines, p90
from machine import busy_s, neighbours, stolen_since, wanted_s

HERE = Path(__file__).resolve().parent
RUN_ON_CARDS = HERE.parent / "simgpu" / "run.py"
IN_A_CONTAINER = HERE / "container.py"
HELPERS = {"kit", "gains", "simnet", "remote", "slow_server", "throttle", "container", "judge", "machine"}
FOREIGN = 0.15  # cores used by others during a run: above it, its timing is not the script's own
STOLEN = 0.05  # of the CPU time wanted, taken by the host of a virtual machine: above it, it is said
ATTEMPTS = 3  # at a run that others disturb; then the least disturbed one counts
DEADLINE_S = 120.0  # a case takes 6 to 20 s on two idle CPUs
CROWDED = 4  # deadlines more for each busy neighbour: threads that spin for each other lose that much and more
NOT_HERE = 77  # exit status of a script that cannot run on this machine; its last line says why
FIRST = 0.95  # bar: planted causes that come first
FIRST_LOADED = 0.90  # bar: the same beside busy neighbours
HEAD = "{:34} {:23} {:24} {:5} {:20} {:>8} {:>9}"  # the table's columns
BARS = (0.05, 0.10)  # relative error of the predicted speed-up: median, 90th percentile
COVERED = 0.90  # bar: intervals that hold what was realised
LATER = 2.0  # s before a script that failed is tried again: what was in its way may be gone
# What says that a thread of torch's own fell as the interpreter ended: tests/simcuda/README.md
TORCHS_OWN, ATTEMPTS = "terminate called without an active exception", 5
AGREE = 0.05  # rounds of a case that differ by no more say what a change realises as closely as the bar for the median
KNOWN = 0.02  # standard error from which on what a change realised is known: well below the bar for its prediction
NEIGHBOUR = "busy-host"  # what has to be named on a machine with busy neighbours, beside the cause
WORTH = 1.05  # what a change must realise to be worth a word: gputune's own bar
SLOWED = 1.1  # by a busy neighbour: from here on it is to be named
ROUND = "round.json"  # beside a kept recording: what the script's own clock said


class NotHere(Exception):  # noqa: N818 - it is no error: what the script is about does not exist here
    """A script cannot run on this machine; its text says why."""


@dataclass(frozen=True)
class Case:
    """One script, as its header says."""

    name: str
    path: Path
    cause: str | None
    fix: dict[str, float]
    device: str
    also: list[str]
    prefix: list[str]
    card: list[str]
    container: list[str] = field(default_factory=list)  # options of container.py
    neighbours: int = 0  # busy processes of somebody else, which the twin runs without
    cards: list[str] = field(default_factory=list)  # the command that gives it cards, if any
    python: str = sys.executable  # that runs the script
    fails: bool = False  # the planted cause ends the run
    softly: bool = False  # what would mend it is told as what may help, for nothing in the run makes sure of it

    @property
    def elsewhere(self) -> str:
        """Return where the twin runs of a script that has no setting to mend."""
        return "no neighbours" if self.neighbours else "another card"


@dataclass
class Outcome:
    """One case, judged."""

    name: str
    planted: str | None
    found: list[list[str]] = field(default_factory=list)  # ids of each round's findings, best first
    predicted: list[list[float]] = field(default_factory=list)  # low, likely, high of each round's top finding
    at_least: bool = False  # only the low end is a prediction
    simulated: bool = False  # on a simulated card
    gains: list[Gain] = field(default_factory=list)  # of each round: what was promised, and what its own pair realised
    paces: list[float] = field(default_factory=list)  # samples/s as it is
    mended: list[float] = field(default_factory=list)  # samples/s with the change
    foreign: list[float] = field(default_factory=list)  # cores that others used during each run
    stolen: list[float] = field(default_factory=list)  # shares of the CPU time that a host gave to others, each run
    told: list[float | None] = field(default_factory=list)  # samples/s as findings.json has it
    beside: list[dict[str, float]] = field(default_factory=list)  # how far each run is off in other figures, by name
    change: str = ""
    untried: bool = False  # another change is advised now than was tried: what it brings is not known
    trouble: str = ""
    missing: str = ""  # why the script cannot run on this machine: then it counts for nothing
    named: bool | None = None  # on a loaded machine: whether the neighbour was
    slowed: float | None = None  # and its pace on a quiet one over its pace beside the neighbour
    right: bool = False
    realised: float | None = None
    error: float | None = None
    inside: bool | None = None


def _blank(case: Case) -> Outcome:
    return Outcome(case.name, case.cause, simulated=bool(case.cards))


def cases(only: str) -> list[Case]:
    """Return the zoo's scripts whose name contains `only`."""
    found = []
    for path in sorted(HERE.glob("*.py")):
        if path.stem in HELPERS or path.stem.startswith("test_") or only not in path.stem:
            continue
        found.append(case_of(path))
    return found


def case_of(path: Path) -> Case:
    """Return the script's case, as its header says it."""
    zoo = header(path)
    optional = {name: zoo[name] for name in ("container", "neighbours", "fails", "softly") if name in zoo}
    if zoo["device"] == "sim":
        optional["cards"] = [sys.executable, str(RUN_ON_CARDS), "--devices", "1"]
    return Case(
        path.stem,
        path,
        zoo["cause"],
        zoo["fix"],
        zoo["device"],
        zoo["also"],
        zoo.get("prefix", []),
        zoo.get("card", []),
        **optional,
    )


def header(path: Path) -> dict:
    """Return the script's ZOO without running it."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "ZOO":
            return ast.literal_eval(node.value)
    raise SystemExit(f"{path} has no ZOO")


def command(case: Case, options: list[str], verdict: Path | None, *, mended: bool, folder: Path) -> list[str]:
    """Return the whole command line: simulated cards, a container, gputune, the script."""
    script = [*case.prefix, case.python, str(case.path), *options]
    watch = ["-m", "gputune", "watch", "--quiet", "--out", str(folder / "run"), "--json", str(verdict), "--"]
    watched = [sys.executable, *watch, *script] if verdict else script
    if case.container:
        watched = [sys.executable, str(IN_A_CONTAINER), *case.container, "--", *watched]
    if not case.cards:
        return watched
    return [*case.cards, *([] if mended else case.card), "--", *watched]


@dataclass(frozen=True)
class Run:
    """One run of a script: its own samples/s, gputune's verdict, and what there was of the machine meanwhile.

    `foreign` is what others used of the CPUs, in cores, `stolen` the share of the CPU time wanted that a virtual
    machine's host gave to others.
    """

    pace: float
    verdict: dict
    foreign: float
    stolen: float
    books: list[dict] = field(default_factory=list)  # of each rank, where a simulated card left any


Beside = Callable[[Case, Mapping, list[dict]], dict[str, float]]


def nothing_beside(_case: Case, _verdict: Mapping, _books: list[dict]) -> dict[str, float]:
    """Hold a verdict against nothing but what was planted and what that brought."""
    return {}


@dataclass(frozen=True)
class Way:
    """How to run cases: how often to try a disturbed run, where recordings are kept, how many busy neighbours.

    `rounds` are run in any case, up to `most` as long as what was realised is not known; `resume` counts kept ones.
    `bare_twins` run without gputune. `beside` holds a verdict against a run's books.
    """

    attempts: int = ATTEMPTS
    keep: Path | None = None
    loaded: int = 0
    rounds: int = 2
    most: int = 2
    resume: bool = False
    bare_twins: bool = False
    beside: Beside = nothing_beside


def run(case: Case, options: list[str], way: Way, *, mended: bool = False, record: Path | None = None) -> Run:
    """Run a case, again if others disturbed it; `record` is watched and keeps its run folder there.

    Raises RuntimeError with its last words.
    """
    runs: list[tuple[Run, Path]] = []
    with tempfile.TemporaryDirectory(prefix="zoo-runs-") as folder:
        while len(runs) < way.attempts and (not runs or runs[-1][0].foreign > FOREIGN):
            kept = Path(folder) / str(len(runs))
            runs.append((_again(case, options, way, mended, kept if record else None), kept))
        best, kept = min(runs, key=lambda r: r[0].foreign)
        if record and way.keep:
            shutil.rmtree(record, ignore_errors=True)
            shutil.move(kept, record)
    return best


def _again(case: Case, options: list[str], way: Way, mended: bool, kept: Path | None) -> Run:
    """Run a case once, and once more if it failed: not every failure is the script's or gputune's; some torch's own."""
    for others in range(ATTEMPTS - 1):
        try:
            return run_once(case, options, mended=mended, kept=kept, loaded=way.loaded)
        except (RuntimeError, subprocess.TimeoutExpired) as trouble:  # noqa: PERF203 - each of them takes seconds
            if others and TORCHS_OWN not in str(trouble):
                raise
            print(f"{case.name} failed and runs again: {trouble}", file=sys.stderr)
            time.sleep(LATER)
    return run_once(case, options, mended=mended, kept=kept, loaded=way.loaded)


def run_once(case: Case, options: list[str], *, mended: bool, kept: Path | None, loaded: int = 0) -> Run:
    """Run a case once: watched if its run folder goes to `kept`, else bare. Raises RuntimeError with its last words."""
    with tempfile.TemporaryDirectory(prefix="zoo-") as name:
        folder = Path(name)
        verdict = folder / "verdict.json" if kept else None
        env = {**os.environ, "ZOO_PACE": str(folder / "pace.json"), "PYTHONWARNINGS": "ignore"}
        argv = command(case, options, verdict, mended=mended, folder=folder)
        began, before = time.monotonic(), busy_s()
        busy = 0 if mended and case.neighbours else loaded + case.neighbours  # without any, where they are the cause
        wanted = wanted_s()
        with neighbours(busy):
            done = _finished(argv, env, folder, DEADLINE_S * (1 + CROWDED * loaded))
        if done.returncode == NOT_HERE:
            raise NotHere(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it does not say why")
        failed = done.returncode and not (case.fails and not mended)
        if failed or not (folder / "pace.json").exists() or (verdict and not verdict.exists()):
            raise RuntimeError(f"status {done.returncode}: {done.stderr.strip()[-300:]}")
        foreign, stolen = max(0.0, (busy_s() - before) / (time.monotonic() - began)), stolen_since(wanted)
        pace = json.loads((folder / "pace.json").read_text())
        said = json.loads(verdict.read_text()) if verdict else {}
        if kept:
            shutil.move(folder / "run", kept)
        books = [json.loads(path.read_text()) for path in sorted(folder.glob("pace.json.*"))]
        return Run(pace["samples"] / pace["seconds"], said, foreign, stolen, books)


def _finished(argv: list[str], env: dict[str, str], folder: Path, deadline: float) -> subprocess.CompletedProcess:
    """Run to the end; past the deadline all of it is ended, for a training outlives the `gputune watch` around it."""
    with subprocess.Popen(
        argv, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            out, err = process.communicate(timeout=deadline)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(argv, process.returncode, out, err)


def accepts(case: Case, change: dict[str, object]) -> list[str] | None:
    """Return the options that make the script do what a finding proposes, or None if it has no such settings."""
    source = case.path.read_text()
    if not change or not all(f"{name}=" in source.partition("kit.settings(")[2].split(")")[0] for name in change):
        return None
    return options_of(change)


def options_of(settings: Mapping[str, object]) -> list[str]:
    """Return settings as a script's options."""
    return [part for name, value in settings.items() for part in ("--" + name.replace("_", "-"), str(value))]


def judge(case: Case, way: Way) -> Outcome:
    """Run a case and its twin, alternating, and hold the verdict against what was planted and what was realised."""
    kept = rejudged(way.keep, [case], way.beside) if way.keep and way.resume else []
    outcome = kept[0] if kept and not kept[0].untried else _blank(case)
    try:
        while len(outcome.paces) < way.rounds or (len(outcome.paces) < way.most and not is_known(outcome)):
            _round(case, outcome, way, _next_number(case, way.keep) if way.keep and way.resume else len(outcome.paces))
    except NotHere as reason:
        outcome.missing = str(reason)
        return outcome
    except (RuntimeError, subprocess.TimeoutExpired) as trouble:
        outcome.trouble = str(trouble)
        return outcome
    return _held(outcome, loaded=bool(way.loaded))


def _next_number(case: Case, keep: Path) -> int:
    """Return the number of a round that is not kept yet: of those that are, not all may count any more."""
    taken = {path.parent.name for path in keep.glob(f"*/{ROUND}")}
    return next(n for n in itertools.count() if f"{case.name}-{n}" not in taken)


def is_known(outcome: Outcome) -> bool:
    """Return whether further rounds would tell little more of what the change realised."""
    ratios = [math.log(ratio) for ratio in _ratios(outcome)]
    if not outcome.predicted or not ratios:
        return True
    return len(ratios) > 1 and statistics.stdev(ratios) / math.sqrt(len(ratios)) <= KNOWN


def realised(outcome: Outcome) -> float:
    """Return what the change realised: the median ratio of a run and its twin, which ran one right after the other."""
    return statistics.median(_ratios(outcome))


def _held(outcome: Outcome, *, loaded: bool) -> Outcome:
    """Hold what was found and predicted against what was planted and realised."""
    if loaded:
        outcome.named = all(NEIGHBOUR in found for found in outcome.found)
    aside = {NEIGHBOUR} - {outcome.planted} if loaded else set()
    tops = [next((i for i in found if i not in aside), None) for found in outcome.found]
    outcome.right = all(top == outcome.planted for top in tops) or (loaded and _gone(outcome, tops))
    if outcome.mended and outcome.predicted:
        outcome.realised = realised(outcome)
        if outcome.untried:  # what another change brought says nothing of this one
            return outcome
        low, likely, high = (statistics.median(values) for values in zip(*outcome.predicted, strict=True))
        outcome.error = None if outcome.at_least else abs(likely / outcome.realised - 1)
        outcome.inside = low <= outcome.realised and (outcome.at_least or outcome.realised <= high)
    return outcome


def _gone(outcome: Outcome, tops: list[str | None]) -> bool:
    """Return whether nobody spoke of what a busy neighbour has made worthless: more workers where no CPU is left."""
    return not any(tops) and bool(outcome.mended) and realised(outcome) < WORTH


def _round(case: Case, outcome: Outcome, way: Way, number: int) -> None:
    record = (way.keep or Path(tempfile.gettempdir())) / f"{case.name}-{number}"
    seen = run(case, [], way, record=record)
    outcome.paces.append(seen.pace)
    outcome.foreign.append(round(seen.foreign, 3))
    outcome.stolen.append(round(seen.stolen, 3))
    finding = _told(case, outcome, seen.verdict)
    outcome.beside.append(way.beside(case, seen.verdict, seen.books))
    if promised := promised_by(finding):
        outcome.predicted.append(promised)
        outcome.at_least = outcome.at_least or bounds(finding)
    options: list[str] | None = None
    if case.cause is not None:
        options = accepts(case, finding["change"]) if finding else None
        outcome.change = " ".join(options or ["--fixed"] if case.fix else [case.elsewhere])
        twin = None if way.bare_twins else record.with_name(f"{record.name}-twin")
        mended = run(case, options or ["--fixed"], way, mended=True, record=twin)
        outcome.mended.append(mended.pace)
        if promised:
            outcome.gains.append(_gain(case, finding, mended.pace / seen.pace))
        outcome.foreign.append(round(mended.foreign, 3))
        outcome.stolen.append(round(mended.stolen, 3))
    if way.keep:
        kept = {"name": case.name, "pace": seen.pace, "stolen": seen.stolen, "loaded": way.loaded, "books": seen.books}
        if outcome.mended:
            kept |= {"mended": mended.pace, "stolen_mended": mended.stolen}
            kept |= {"change": outcome.change, "foreign": outcome.foreign[-2:]}
        (record / ROUND).write_text(json.dumps(kept, indent=1) + "\n")


def _told(case: Case, outcome: Outcome, verdict: dict) -> dict | None:
    """Take a verdict down; return the finding of the planted cause, if it is there."""
    outcome.told.append(verdict["samples_per_s"])
    # nothing is to be said of a healthy run, however softly
    doubts = verdict["perhaps"] if case.cause is None or case.softly else []
    findings = [*verdict["findings"], *doubts]
    outcome.found.append([finding["id"] for finding in findings])
    return next((f for f in findings if f["id"] == case.cause), None)


def promised_by(finding: dict | None) -> list[float] | None:
    """Return the ends and the middle of what a finding promises; None where it promises no speed: a risk, an offer."""
    if finding is None or finding["risk"] or finding["offer"]:
        return None
    return [finding["speedup"][end] for end in ("low", "likely", "high")]


def _gain(case: Case, finding: dict, realised: float) -> Gain:
    """Return a finding's promise beside what the pair realised that it was made in."""
    basis = "measured" if finding.get("measured") else "predicted"
    promised = promised_by(finding)
    return Gain(
        finding["id"],
        promised,
        realised,
        at_least=bounds(finding),
        simulated=bool(case.cards),
        basis=basis,
        ideal=ideal(finding),
    )


def bounds(finding: dict | None) -> bool:
    """Return whether only the low end of what a finding promises is a prediction."""
    return bool(finding and finding["speedup"].get("at_least"))


def rejudged(folder: Path, among: list[Case], beside: Beside = nothing_beside, *, anew: bool = True) -> list[Outcome]:
    """Judge kept recordings anew, in this process: nothing runs, and what was realised is what was measured then.

    Without `anew` they count as they were judged when they were made: at first sight.
    """
    from gputune.report.rejudging import rejudge
    from gputune.verdict.building import to_json

    def verdict(run: Path) -> dict:
        return json.loads(to_json(rejudge(run)) if anew else (run / "findings.json").read_text())

    known = {case.name: case for case in among}
    outcomes: dict[str, Outcome] = {}
    rounds: dict[str, list[KeptRound]] = {}
    loaded = False
    for path in sorted(folder.glob(f"*/{ROUND}")):
        kept = json.loads(path.read_text())
        case = known.get(kept["name"])
        if case is None:
            continue
        loaded = loaded or bool(kept["loaded"])
        outcome = outcomes.setdefault(case.name, _blank(case))
        said = verdict(path.parent)
        finding = _told(case, outcome, said)
        outcome.beside.append(beside(case, said, kept.get("books", [])))
        outcome.stolen += [kept[name] for name in ("stolen", "stolen_mended") if name in kept]
        outcome.foreign += kept.get("foreign", [])
        rounds.setdefault(case.name, []).append(_kept_round(case, kept, finding))
    for name, mine in rounds.items():
        _take(outcomes[name], mine)
    return [_held(outcome, loaded=loaded) for outcome in outcomes.values()]


@dataclass(frozen=True)
class KeptRound:
    """A round that was kept: what was measured and tried then, what is predicted now, and for which change if others.

    `mended` is None where nothing was tried, `predicted` where the cause is not found now or promises no speed.
    """

    pace: float
    mended: float | None
    tried: str
    predicted: list[float] | None
    at_least: bool = False
    instead: str = ""
    gain: Gain | None = None  # where what was tried is advised now


def _kept_round(case: Case, kept: dict, finding: dict | None) -> KeptRound:
    now = " ".join((finding and accepts(case, finding["change"])) or ["--fixed"])
    instead = now if "mended" in kept and case.fix and now != kept["change"] else ""
    tried, promised, mended = kept.get("change", ""), promised_by(finding), kept.get("mended")
    held = finding is not None and promised is not None and mended is not None and not instead
    gain = _gain(case, finding, mended / kept["pace"]) if held else None
    return KeptRound(kept["pace"], mended, tried, promised, bounds(finding), instead, gain)


def _take(outcome: Outcome, rounds: list[KeptRound]) -> None:
    """Take the rounds in which the change was tried that is advised now; where there are none, what was tried."""
    mended = [r for r in rounds if r.mended is not None] or rounds
    tried = [r for r in mended if not r.instead] or [r for r in mended if r.predicted is None]
    outcome.untried = not tried
    counted = tried or mended
    outcome.paces = [r.pace for r in counted]
    outcome.mended = [r.mended for r in counted if r.mended is not None]
    outcome.predicted = [r.predicted for r in counted if r.predicted]
    outcome.at_least = any(r.at_least for r in counted)
    outcome.gains = [r.gain for r in counted if r.gain]
    last = counted[-1]
    outcome.change = last.tried + (f" (would be {last.instead})" if last.instead else "")


def compare(outcomes: list[Outcome], quiet: Path) -> None:
    """Note by how much busy neighbours slowed each script, against recordings of a run without any."""
    paces: dict[str, list[float]] = {}
    for path in quiet.glob(f"*/{ROUND}"):
        kept = json.loads(path.read_text())
        paces.setdefault(kept["name"], []).append(kept["pace"])
    for outcome in outcomes:
        if outcome.name in paces and outcome.paces:
            outcome.slowed = statistics.median(paces[outcome.name]) / statistics.median(outcome.paces)


def row(outcome: Outcome) -> str:
    """Return a case's line of the table."""
    tops = " / ".join(found[0] if found else "-" for found in outcome.found)
    if len({found[0] if found else "-" for found in outcome.found}) == 1:
        tops = tops.split(" / ")[0]
    predicted = gained = error = ""
    if outcome.predicted:
        low, likely, high = (statistics.median(values) for values in zip(*outcome.predicted, strict=True))
        predicted = f"at least {low:.2f}" if outcome.at_least else f"{likely:.2f} [{low:.2f}, {high:.2f}]"
    if outcome.mended:
        gained = f"{realised(outcome):.2f}"
    if outcome.error is not None:
        error = f"{outcome.error:.0%}{'' if outcome.inside else ' out'}"
    elif outcome.at_least and outcome.inside is not None:
        error = "held" if outcome.inside else "out"
    right = "yes" if outcome.right else "NO"
    line = HEAD.format(outcome.name, outcome.planted or "-", tops or "-", right, predicted, gained, error)
    noise = f"others used {max(outcome.foreign):.2f} cores" if max(outcome.foreign, default=0.0) > FOREIGN else ""
    stolen = f"{max(outcome.stolen):.0%} stolen" if max(outcome.stolen, default=0.0) > STOLEN else ""
    said = filter(None, (outcome.missing or outcome.trouble or outcome.change, noise, stolen, *_beside(outcome)))
    return f"{line}  {' · '.join(said)}".rstrip()


def _beside(outcome: Outcome) -> list[str]:
    """Return what a case is off in other figures at the most, in words."""
    return [f"{name} {value:+.2g}" for name, value in furthest([outcome]).items()]


def furthest(outcomes: list[Outcome]) -> dict[str, float]:
    """Return the value of each other figure that is furthest from none."""
    found: dict[str, float] = {}
    for name, value in (item for o in outcomes for run in o.beside for item in run.items()):
        found[name] = max(found.get(name, 0.0), value, key=abs)
    return found


def repeated(outcomes: list[Outcome]) -> list[float]:
    """Return how far what a change realised in one round is from what it did in the others, sorted.

    No prediction can be told to be better than that: who had seen the change once would be so far off.
    """
    found = []
    for outcome in outcomes:
        ratios = _ratios(outcome)
        for number, ratio in enumerate(ratios if len(ratios) > 1 and outcome.predicted else []):
            found.append(abs(ratio / statistics.median(ratios[:number] + ratios[number + 1 :]) - 1))
    return sorted(found)


def agreeing(outcomes: list[Outcome]) -> list[float]:
    """Return the errors of the cases whose rounds agree on what their change realises, sorted."""
    rounds = [(outcome.error, _ratios(outcome)) for outcome in outcomes if outcome.error is not None]
    agree = [error for error, each in rounds if len(each) > 1 and max(each) <= (1 + AGREE) * min(each)]
    return sorted(agree)


def _ratios(outcome: Outcome) -> list[float]:
    """Return what a change realised in each round, as a ratio of samples/s."""
    return [then / now for now, then in zip(outcome.paces, outcome.mended, strict=False)]


def _singles(outcomes: list[Outcome]) -> list[Gain]:
    """Return all single predictions, each with the median of its case's pairs where these are several."""
    found = []
    for outcome in outcomes:
        several = statistics.median(g.realised for g in outcome.gains) if len(outcome.gains) > 1 else None
        found += [replace(gain, typical=several) for gain in outcome.gains]
    return found


def _held_beside(outcomes: list[Outcome], most: Mapping[str, float]) -> tuple[list[str], bool]:
    """Return how many cases are within the bar of each other figure, as lines, and whether all are."""
    said, met = [], True
    for name, bar in most.items():
        off = sorted(abs(value) for o in outcomes if (value := furthest([o]).get(name)) is not None)
        if off:
            within = sum(value <= bar for value in off)
            met = met and within == len(off)
            middle, far = statistics.median(off), off[-1]
            said.append(f"{name}: {within} of {len(off)} within {bar:g}, median {middle:.2g}, most {far:.2g}")
    return said, met


def totals(
    outcomes: list[Outcome], bars: tuple[float, float] = BARS, beside: Mapping[str, float] | None = None
) -> tuple[list[str], bool]:
    """Return the totals as lines, and whether the bars are met, of which `bars` are those for the median and p90.

    `beside` are those of other figures, by name.
    """
    missing = sum(bool(o.missing) for o in outcomes)
    outcomes = [o for o in outcomes if not o.missing]
    planted = [o for o in outcomes if o.planted]
    healthy = [o for o in outcomes if not o.planted]
    first, quiet = sum(o.right for o in planted), sum(o.right for o in healthy)
    errors = sorted(o.error for o in planted if o.error is not None)
    told = [o for o in planted if o.inside is not None]
    bounds = [o for o in told if o.at_least]
    said = [
        f"planted cause first: {first} of {len(planted)}",
        f"false alarms in healthy: {len(healthy) - quiet} of {len(healthy)}",
    ]
    if failed := sum(bool(o.trouble) for o in outcomes):
        said.append(f"failed, and counted as not found: {failed}")
    if missing:
        said.append(f"not possible on this machine: {missing}")
    if untried := sum(o.untried for o in planted):
        said.append(f"another change is advised now than was tried, so not held against it: {untried}")
    loaded = [o for o in outcomes if o.named is not None]
    met = first >= (FIRST_LOADED if loaded else FIRST) * len(planted) and quiet == len(healthy)
    if loaded:
        said.append(f"busy neighbour named: {sum(bool(o.named) for o in loaded)} of {len(loaded)}")
    slowed = [o for o in loaded if o.slowed and o.slowed >= SLOWED]
    if slowed:
        said.append(f"and where it slowed the script by a tenth: {sum(bool(o.named) for o in slowed)} of {len(slowed)}")
    if errors:
        median, most = statistics.median(errors), p90(errors)
        covered = sum(bool(o.inside) for o in told)
        said.append(f"error of the predicted speed-up: median {median:.1%}, 90th percentile {most:.1%}")
        said.append(f"interval covers what was realised: {covered} of {len(told)}")
        if bounds:
            kept = sum(bool(o.inside) for o in bounds)
            said.append(f"told as a lower bound, so without an error: {len(bounds)}, of which {kept} held")
        if apart := repeated(planted):
            median_apart, p90_apart = statistics.median(apart), p90(apart)
            said.append(
                f"one round from the others of its case: median {median_apart:.1%}, 90th percentile {p90_apart:.1%}"
            )
        if sure := agreeing(planted):
            said.append(
                f"error where the rounds of a case agree within {AGREE:.0%} ({len(sure)} cases): "
                f"median {statistics.median(sure):.1%}, 90th percentile {p90(sure):.1%}"
            )
        held = median <= bars[0] and most <= bars[1] and covered >= COVERED * len(told)
        met = met and (held or bool(loaded))
    others, within = _held_beside(outcomes, beside or {})
    return [*said, *lines(_singles(planted)), *others], met and within


@dataclass(frozen=True)
class Zoo:
    """What is judged: its cases, its bars, where the results of all of it go; parts of it that are summed up apart."""

    cases: Callable[[str], list[Case]]
    results: Path
    bars: tuple[float, float] = BARS
    bare_twins: bool = False
    parts: tuple[str, ...] = ()  # ends of the names of their cases
    get_ready: Callable[[], None] = lambda: None  # before anything runs
    beside: Beside = nothing_beside  # what else a verdict is held against, of a run's books: how far it is off, by name
    bars_beside: Mapping[str, float] = field(default_factory=dict)


def _both_sights(folder: Path, among: list[Case], zoo: Zoo) -> list[Outcome]:
    """Judge kept recordings anew, and tell first what was said of them when they were made."""
    then = totals(rejudged(folder, among, zoo.beside, anew=False), zoo.bars, zoo.bars_beside)[0]
    print("as they were judged when they were made:", *then, "", "by the present rules:", sep="\n")
    return rejudged(folder, among, zoo.beside)


def main(zoo: Zoo) -> int:
    """Judge, print, and write results.json."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only scripts whose name contains this")
    parser.add_argument("--rounds", type=int, default=2, help="how often each script and its twin run at the least")
    parser.add_argument("--most", type=int, default=5, help="and as long as what its change realised is not known")
    parser.add_argument("--bare", action="store_true", help="without gputune: what each fix realises")
    parser.add_argument("--attempts", type=int, default=ATTEMPTS, help="how often to try a run that others disturb")
    parser.add_argument("--keep", type=Path, help="keep every recording, and what was realised, in this folder")
    parser.add_argument("--resume", action="store_true", help="go on where the recordings of --keep end")
    parser.add_argument("--again", type=Path, help="judge the recordings of this folder anew; nothing runs")
    parser.add_argument("--loaded", type=int, default=0, help="busy neighbours on the CPUs during all runs")
    parser.add_argument("--quiet", type=Path, help="with --loaded: recordings of a quiet run, for what the load cost")
    parser.add_argument("--results", type=Path, help="where every number goes (a whole quiet run: results.json)")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the run under way is ended with us
    most = max(args.rounds, args.most)
    way = Way(args.attempts, args.keep, args.loaded, args.rounds, most, args.resume, zoo.bare_twins, zoo.beside)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
    if not args.again:
        zoo.get_ready()
    chosen = [] if args.again else zoo.cases(args.only)
    if args.bare:
        for case in chosen:
            now, then = run(case, [], way), run(case, ["--fixed"], way, mended=True)
            noise = f"others {max(now.foreign, then.foreign):.2f}"
            print(f"{case.name:34} {now.pace:10.1f} {then.pace:10.1f} {then.pace / now.pace:6.2f}  {noise}", flush=True)
        return 0
    print(HEAD.format("case", "planted", "top finding", "right", "predicted", "realised", "error") + "  change")
    outcomes = _both_sights(args.again, zoo.cases(args.only), zoo) if args.again else []
    for outcome in outcomes:
        print(row(outcome), flush=True)
    for case in chosen:
        outcomes.append(judge(case, way))
        print(row(outcomes[-1]), flush=True)
    if args.quiet:
        compare(outcomes, args.quiet)
    said, met = totals(outcomes, zoo.bars, zoo.bars_beside)
    for part in zoo.parts:
        some = [o for o in outcomes if o.name.endswith(part)]
        said += [f"{part}: {line}" for line in totals(some, zoo.bars, zoo.bars_beside)[0]]
    print("", *said, "bars met" if met else "BELOW THE BARS", sep="\n")
    whole = not args.only and not args.again and not args.loaded
    if results := args.results or (zoo.results if whole else None):
        results.write_text(json.dumps({"cases": [asdict(o) for o in outcomes], "totals": said}, indent=1) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(Zoo(cases, HERE / "results.json")))
