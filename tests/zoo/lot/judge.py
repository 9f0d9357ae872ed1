"""Judge gputune by loops drawn by lot: `make lot SEED=1000 COUNT=20`.

    python tests/zoo/lot/judge.py --seed 1000 --count 20 [--keep DIR] [--results FILE]
    python tests/zoo/lot/judge.py --figures FILE…       # the same figures of results that are kept
    python tests/zoo/lot/judge.py --again DIR --figures FILE…   # and of their recordings, by the present rules

Each draw (draw.py) runs once under `gputune watch`, and right after it with what the first finding proposes, if these
are settings, else as the twin without what it names; and, where that was not planted, as the twin without what was. A
prediction is held against its own pair: a figure of first sight, with the noise of one pair in it. Nothing that was
found is left out, and a run that failed is counted.
`burnt.txt` lists the seeds that somebody looked at to mend something: they are judged, and told apart.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from draw import Draw, drawn, write  # noqa: E402 - it lies beside this script, which may be run from anywhere
from gains import Gain, lines  # noqa: E402 - likewise


def _zoo_judge():
    """Return the zoo's judge, a module that has the name of this one."""
    spec = importlib.util.spec_from_file_location("zoo_judge", HERE.parent / "judge.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


zoo = _zoo_judge()
WORTH = 1.05  # gputune's own bar, for what it says and for what it leaves out
IDLE = 1.02  # a change that brings less brings nothing that can be measured in one pair


@dataclass
class Row:
    """One draw, judged: what was planted and told, and what changes brought, as ratios of samples/s."""

    seed: int
    causes: list[str]
    others: list[str]
    found: list[str] = field(default_factory=list)
    basis: str = ""  # of the first finding: measured or predicted
    promised: list[float] | None = None  # low, likely, high of the first finding
    at_least: bool = False
    offer: bool = False  # the first finding promises no speed
    tried: str = ""  # options that it was tried with
    realised: float | None = None  # what these brought
    planted: float | None = None  # what the twin without the causes brings
    ideal: float | None = None  # what the rule max(making / workers, step) says of what was tried, out of the draw
    pace: float = 0.0
    changed: bool = False  # judged anew, and something else is advised than was tried
    foreign: float = 0.0  # CPUs that others used while it was watched: above `zoo.FOREIGN` its times are not its own
    trouble: str = ""

    @property
    def right(self) -> bool:
        """Return whether what comes first was planted; of a healthy loop, whether nothing is said in vain."""
        first = self.found[0] if self.found else None
        if self.causes:
            return first in {*self.causes, *self.others}
        return first is None or (self.realised or 0.0) >= WORTH

    @property
    def error(self) -> float | None:
        """Return how far the promise is from what its change brought, as a share."""
        if self.promised is None or self.realised is None or self.at_least:
            return None
        return abs(self.promised[1] / self.realised - 1)


def judge(seed: int, folder: Path, keep: Path | None) -> Row:
    """Run a draw and what it is held against."""
    draw = drawn(seed)
    row = Row(seed, draw.causes, draw.others)
    case = zoo.case_of(write(draw, folder))
    way = zoo.Way(attempts=1, keep=keep, rounds=1, most=1)
    record = (keep or folder) / f"draw-{seed}"
    beside = record.with_suffix
    try:
        seen = zoo.run(case, [], way, record=record)
        row.pace, row.foreign = seen.pace, round(seen.foreign, 3)
        _take(row, draw, seen.verdict)
        options = _options(case, draw, seen.verdict["findings"])
        if options is not None:
            row.tried = " ".join(options)
            alone = row.found[0] == "busy-host"
            row.realised = zoo.run(case, options, way, mended=alone, record=beside(".tried")).pace / row.pace
            row.ideal = _ideal(draw, options)
        if draw.causes and (options is None or not row.right):
            row.planted = zoo.run(case, ["--fixed"], way, mended=True, record=beside(".twin")).pace / row.pace
    except (RuntimeError, subprocess.TimeoutExpired) as trouble:
        row.trouble = str(trouble)[-300:]
    return row


def _take(row: Row, draw: Draw, verdict: dict) -> None:
    findings = verdict["findings"]
    row.found = [f["id"] for f in findings]
    if not draw.causes:  # nothing is to be said of a healthy run, however softly
        row.found += [f["id"] for f in verdict["perhaps"]]
    if findings:
        first = findings[0]
        row.at_least = zoo.bounds(first)
        row.basis = "measured" if first.get("measured") else "predicted"
        row.promised = zoo.promised_by(first)
        row.offer = row.promised is None


def _options(case: object, draw: Draw, findings: list[dict]) -> list[str] | None:
    """Return how the script does what the first finding says: by its settings, or by the twin that lacks this cause."""
    if not findings:
        return None
    if options := zoo.accepts(case, findings[0]["change"]):
        return options
    mends = draw.fixes.get(findings[0]["id"])
    if mends is None and findings[0]["id"] in draw.others:
        mends = draw.fixes[draw.causes[0]]
    if mends is None:
        return None
    if "num_workers" in mends and "workers" in findings[0]["evidence"]:
        mends = {**mends, "num_workers": int(findings[0]["evidence"]["workers"])}
    return zoo.options_of(mends)


def _ideal(draw: Draw, options: list[str]) -> float | None:
    """Return what perfect overlap would bring: of the nominal times, for changed workers alone."""
    given = dict(zip(options[::2], options[1::2], strict=True))
    if set(given) - {"--num-workers", "--prefetch-factor"} or "--num-workers" not in given:
        return None
    before, after = draw.round_s(), draw.__class__(**{**vars(draw), "workers": int(given["--num-workers"])}).round_s()
    return before / after


def figures(rows: Iterable[Row]) -> list[str]:
    """Return what the rows come to, as lines: everything counts, and what is not known is said."""
    rows = list(rows)
    ran = [row for row in rows if not row.trouble]
    planted, healthy = [r for r in ran if r.causes], [r for r in ran if not r.causes]
    worth = [r for r in planted if max(r.realised or 0.0, r.planted or 0.0) >= WORTH or r.right]
    one, two = [r for r in worth if len(r.causes) == 1], [r for r in worth if len(r.causes) > 1]
    first = [f"{sum(r.right for r in some)} of {len(some)}" for some in (one, two)]
    told = [
        f"draws: {len(rows)}, failed: {len(rows) - len(ran)}",
        f"planted cause first: {first[0]}, one of two: {first[1]}"
        f" (planted, but worth less than {WORTH - 1:.0%}: {len(planted) - len(worth)})",
        f"silent although the planted cause was worth {WORTH - 1:.0%}: {sum(not r.found for r in worth)}",
        f"false alarms in healthy draws: {sum(not r.right for r in healthy)} of {len(healthy)}",
    ]
    tried = [r for r in ran if r.realised is not None and r.promised]
    nothing = [r for r in tried if r.realised < IDLE]
    told.append(f"advice that brought less than {IDLE - 1:.0%}: {len(nothing)} of {len(tried)}")
    if changed := sum(r.changed for r in ran):
        told.append(f"another change is advised now than was tried, so not held against it: {changed}")
    gains = [Gain(r.found[0], r.promised, r.realised, at_least=r.at_least, basis=r.basis, ideal=r.ideal) for r in tried]
    return told + lines(gains)


def again(row: Row, folder: Path, scratch: Path) -> Row:
    """Return a row whose recording is judged by the present rules: what was realised is what was measured then."""
    from gputune.report.rejudging import rejudge
    from gputune.verdict.building import to_json

    record = folder / f"draw-{row.seed}"
    if row.trouble or not record.exists():
        return row
    draw = drawn(row.seed)
    fresh = replace(row, found=[], promised=None, at_least=False, offer=False, basis="")
    verdict = json.loads(to_json(rejudge(record)))
    _take(fresh, draw, verdict)
    options = _options(zoo.case_of(write(draw, scratch)), draw, verdict["findings"])
    if options is not None and " ".join(options) != row.tried:
        return replace(fresh, changed=True, realised=None, ideal=None)
    return fresh


def line(row: Row) -> str:
    """Return a draw's line."""
    said = f"{row.found[0]}" if row.found else "-"
    promise = ""
    if row.promised:
        promise = f"≥{row.promised[0]:.2f}" if row.at_least else "{1:.2f} [{0:.2f}, {2:.2f}]".format(*row.promised)
    got = f"{row.realised:.2f}" if row.realised else ""
    twin = f"{row.planted:.2f}" if row.planted else ""
    right = "yes" if row.right else "NO"
    error = f"{row.error:.0%}" if row.error is not None else ""
    return (
        f"{row.seed:6} {'+'.join(row.causes) or '-':42} {said:24} {right:4} {promise:20} {got:>6} {twin:>6} {error:>5}"
        f"  {row.trouble or row.tried}{f' · others used {row.foreign:.2f} CPUs' if row.foreign > zoo.FOREIGN else ''}"
    ).rstrip()


def burnt() -> set[int]:
    """Return the seeds that are no evidence any more."""
    text = (HERE / "burnt.txt").read_text()
    return {int(word) for written in text.splitlines() for word in written.partition("#")[0].split()}


def kept(path: Path) -> list[Row]:
    """Return the rows of a file of results."""
    return [Row(**row) for row in json.loads(path.read_text())["rows"]]


def main() -> int:
    """Judge what is asked for, and sum it up."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--keep", type=Path, help="keep every recording in this folder")
    parser.add_argument(
        "--results", type=Path, help="rows go there, one draw after the other; what it has is not run again"
    )
    parser.add_argument("--figures", type=Path, nargs="+", help="only sum up the results that were kept in these files")
    parser.add_argument("--again", type=Path, help="with --figures: judge the recordings in this folder anew as well")
    asked = parser.parse_args()
    rows = [row for path in asked.figures for row in kept(path)] if asked.figures else _judged(asked)
    _sum_up(rows)
    if asked.again:
        with tempfile.TemporaryDirectory(prefix="lot-") as name:
            rows = [again(row, asked.again, Path(name)) for row in rows]
        print("", "by the present rules:", *map(line, rows), sep="\n")
        _sum_up(rows)
    return 0


def _sum_up(rows: list[Row]) -> None:
    used = burnt()
    apart = {True: "first sight", False: "burnt"}
    for fresh, name in apart.items():
        if some := [row for row in rows if (row.seed not in used) is fresh]:
            print("", f"{name}:", *figures(some), sep="\n")


def _judged(asked: argparse.Namespace) -> list[Row]:
    rows = kept(asked.results) if asked.results and asked.results.exists() else []
    known = {row.seed for row in rows}
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lot-") as name:
        for seed in range(asked.seed, asked.seed + asked.count):
            if seed in known:
                continue
            rows.append(judge(seed, Path(name), asked.keep))
            print(line(rows[-1]), flush=True)
            if asked.results:
                asked.results.write_text(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1) + "\n")
    return rows


if __name__ == "__main__":
    sys.exit(main())
