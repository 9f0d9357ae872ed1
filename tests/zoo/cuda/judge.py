"""Judge gputune by the CUDA part of the zoo: `python tests/zoo/cuda/judge.py [--only few] [--keep DIR] …`.

The scripts are trainings with the real CUDA build of torch on the simulated runtime of tests/simcuda, each at three
settings of what a card and a driver may be like. Options, table and totals are those of the judge in tests/zoo, which
this one hands its cases to; twins run bare. First a script of known pace tells how much slower or faster this host is
than that of the scripts, whose times were chosen there; all that is modelled takes so much longer, or less long
(`ZOO_SLOWER`, if it is set). Each run's device ledger is held against what the cards booked of it (books.py).
"""

import importlib.util
import math
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ZOO = HERE.parent
sys.path[:0] = [str(HERE), str(ZOO)]
import books  # noqa: E402 - scripts here share no package

_SPEC = importlib.util.spec_from_file_location("zoo_judge", ZOO / "judge.py")
assert _SPEC is not None
assert _SPEC.loader is not None
zoo = sys.modules[_SPEC.name] = importlib.util.module_from_spec(_SPEC)  # dataclasses look themselves up there
_SPEC.loader.exec_module(zoo)

RUN_ON_CUDA = ZOO.parent / "simcuda" / "run.py"
HELPERS = {"kit_cuda", "judge", "books"}
BARS = (0.10, 0.25)
SETTINGS = {  # launches that a stream holds, and whether waits burn a core, as they do by default
    "spinning": ["--queue", "1024", "--spin"],
    "sleeping": ["--queue", "1024", "--no-spin"],
    "short-queue": ["--queue", "256", "--no-spin"],
}
HOST_BOUND, HOST_BOUND_S = "small_batch_convnet", 0.003  # a script of nothing but launching, s a step
LEAST_SLOWER, MOST_SLOWER = 0.25, 16.0  # what tests/simcuda/run.py takes
LEDGER, WAITS = "points of the device's ledger", "waits for the device a batch beside the script's own"
BESIDE = {LEDGER: 100 * books.POINTS, WAITS: 0.02}
ENOUGH_S = 12.0  # of most loops: then their pace is known, and gputune has seen them for long enough


def scripts(only: str = "") -> list[zoo.Case]:
    """Return the scripts whose name contains `only`, each once."""
    paths = sorted(path for path in HERE.glob("*.py") if path.stem not in HELPERS and only in path.stem)
    return [zoo.case_of(path) for path in paths if not path.stem.startswith("test_")]


def cases(only: str) -> list[zoo.Case]:
    """Return each script at each setting; `only` is a part of `script@setting`."""
    each = [_at(case, setting) for case in scripts() for setting in SETTINGS]
    return [case for case in each if only in case.name]


def _at(case: zoo.Case, setting: str) -> zoo.Case:
    header = zoo.header(case.path)
    cards = ["--devices", str(header.get("devices", 1)), *SETTINGS[setting], *header.get("always", [])]
    cards += ["--slower", os.environ.get("ZOO_SLOWER", "1")]
    return replace(
        case,
        name=f"{case.name}@{setting}",
        cards=[sys.executable, str(RUN_ON_CUDA), *cards],
        python="python",  # the one with CUDA, which the runner puts first
    )


def beside(case: zoo.Case, verdict: Mapping, each: list[books.Books]) -> dict[str, float]:
    """Return how far a verdict is from the cards' books, and by how many waits the run is from the script's own."""
    if not each:
        return {}
    header = zoo.header(case.path)
    held = header.get("ledger", True)  # not where a rank's books go on behind its loop
    parts = books.off(verdict, each, pageable=header.get("pageable", False)) if held else {}
    off = {LEDGER: 100 * max(parts.values(), key=abs)} if parts else {}
    return off | {WAITS: books.waits(each) - header.get("waits", 0)}


def get_ready() -> None:
    """Find out how slow or fast this host is, in powers of two, unless somebody has said it."""
    os.environ.setdefault("ZOO_SECONDS", str(ENOUGH_S))
    if "ZOO_SLOWER" not in os.environ:
        (case,) = cases(f"{HOST_BOUND}@sleeping")
        bare = zoo.run_once(case, ["--batch-size", "1"], mended=True, kept=None)
        os.environ["ZOO_SLOWER"] = str(slower(1 / bare.pace))
    print(f"a step takes this host {os.environ['ZOO_SLOWER']} times as long as the scripts' own", file=sys.stderr)


def slower(step_s: float) -> float:
    """Return how many times slower than the scripts' own a host is whose step takes `step_s` s; below 1: faster."""
    return min(MOST_SLOWER, max(LEAST_SLOWER, 2.0 ** round(math.log2(step_s / HOST_BOUND_S))))


if __name__ == "__main__":
    parts = tuple(SETTINGS)
    results, held = HERE / "results.json", {"beside": beside, "bars_beside": BESIDE}
    sys.exit(zoo.main(zoo.Zoo(cases, results, BARS, bare_twins=True, parts=parts, get_ready=get_ready, **held)))
