"""What runs have shown, a few kB each, and how near predictions come to what they realised: anybody can recompute it.

    python tests/recordings/recompute.py                # the figures, by the rules of this tree
    python tests/recordings/recompute.py --keep RUN NAME    # keep the features of a run folder as NAME.json.gz

`pace-W-N` are run N of one loop with W workers whose items wait (`benchmarks/compare_pairs.py`, kind storage-W), on two
CPUs of which others used 1.9. What 2 or 4 workers bring over 1, and back, is known from the others of the same number.
`pairs.json` has runs of the zoo and of the lot with what their change realised, in one pair each, beside others who
used 1.2 of the two CPUs: they are burnt. `public-NAME` are loops of public scripts (tests/model/test_public_loops.py).
"""

import argparse
import gzip
import json
import re
import statistics
import sys
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import msgspec

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "zoo"))
from gains import Gain, lines  # noqa: E402 - the judges' own figures, which are scripts beside this one

from gputune.features import Features  # noqa: E402
from gputune.model.prediction import Outlook, Setting, known  # noqa: E402

DIGITS = 5  # that count of a time: more is noise, and most of the file
NUMBER = re.compile(rb"-?\d+\.\d+(?:e-?\d+)?")


def keep(features: Features, name: str) -> int:
    """Write what is known of a run, and return the B that it takes."""
    text = NUMBER.sub(lambda found: f"{float(found[0]):.{DIGITS}g}".encode(), msgspec.json.encode(features))
    data = gzip.compress(text, 9, mtime=0)
    return (HERE / f"{name}.json.gz").write_bytes(data)


def kept(name: str) -> Features:
    """Return what is known of a run that was kept."""
    return msgspec.json.decode(gzip.decompress((HERE / f"{name}.json.gz").read_bytes()), type=Features)


def outlook(run: Features) -> Outlook:
    """Return the outlook of the one loop of a run."""
    return next(o for process in run.processes for o in known(run, process))


def factors() -> dict[str, float]:
    """Return by how much the rounds of each kept loop took longer than their replay under the present settings."""
    found = {}
    for path in sorted(HERE.glob("*.json.gz")):
        name = path.name.partition(".")[0]
        run = kept(name)
        loops = [o for process in run.processes for o in known(run, process)]
        if loops:
            found[name] = (loops[0].whole - loops[0].between) / loops[0].loop(loops[0].now)
    return found


def across() -> Iterator[Gain]:
    """Yield what other numbers of workers are predicted to bring, and what they did in a run of the same loop."""
    numbers = sorted({path.name.split("-")[2].partition(".")[0] for path in HERE.glob("pace-*")})
    for number in numbers:
        loops = {path.name.split("-")[1]: outlook(kept(path.name.partition(".")[0])) for path in _paces(number)}
        for now, then in permutations(loops, 2):
            found = loops[now].gain(Setting(int(then), loops[now].now.prefetch, loops[now].now.persistent))
            promised = [found.low, found.likely, found.high]
            yield Gain(f"{now} to {then} workers", promised, loops[now].per_batch / loops[then].per_batch)


def _paces(number: str) -> list[Path]:
    return sorted(HERE.glob(f"pace-*-{number}.json.gz"))


def pairs() -> list[dict]:
    """Return the kept runs whose change was tried: file, id of the finding, change, and what that realised."""
    return json.loads((HERE / "pairs.json").read_text())


def tried() -> tuple[list[Gain], int]:
    """Return what is promised now of the changes that were tried, and of how many nothing, or something else, is."""
    from gputune.verdict.judging import judge

    found, gone = [], 0
    for pair in pairs():
        told = [f for f in judge(kept(pair["file"])) if f.id == pair["cause"]]
        if not told or dict(told[0].change) != pair["change"]:
            gone += 1
            continue
        gain = told[0].speedup
        found.append(Gain(pair["cause"], [gain.low, gain.likely, gain.high], pair["realised"], at_least=gain.at_least))
    return found, gone


def main() -> None:
    """Keep a run, or print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", nargs=2, metavar=("RUN", "NAME"), help="keep the features of a run folder")
    asked = parser.parse_args()
    if asked.keep:
        from gputune.report.rejudging import relive

        print(f"{keep(relive(Path(asked.keep[0]))[0], asked.keep[1]):,} B")
        return
    each = sorted(abs(factor - 1) for factor in factors().values())
    print(f"measured over replayed, present settings: off by {statistics.median(each):.1%} in the median ({len(each)})")
    print("across workers:", *lines(across()), sep="\n")
    found, gone = tried()
    print("\nzoo and lot, burnt:", *lines(found), f"not promised now: {gone}", sep="\n")


if __name__ == "__main__":
    main()
