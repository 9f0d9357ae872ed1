"""Judge gputune by the CUDA part of the zoo: `python tests/zoo/cuda/judge.py [--only few] [--keep DIR] …`.

The scripts are trainings with the real CUDA build of torch on the simulated runtime of tests/simcuda, each at three
settings of what a card and a driver may be like. Options, table and totals are those of the judge in tests/zoo, which
this one hands its cases to; twins run bare.
"""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
ZOO = HERE.parent
sys.path.insert(0, str(ZOO))
_SPEC = importlib.util.spec_from_file_location("zoo_judge", ZOO / "judge.py")
assert _SPEC is not None
assert _SPEC.loader is not None
zoo = sys.modules[_SPEC.name] = importlib.util.module_from_spec(_SPEC)  # dataclasses look themselves up there
_SPEC.loader.exec_module(zoo)

RUN_ON_CUDA = ZOO.parent / "simcuda" / "run.py"
HELPERS = {"kit_cuda", "judge"}
BARS = (0.10, 0.25)
SETTINGS = {  # launches that a stream holds, and whether waits burn a core, as they do by default
    "spinning": ["--queue", "1024", "--spin"],
    "sleeping": ["--queue", "1024", "--no-spin"],
    "short-queue": ["--queue", "256", "--no-spin"],
}


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
    return replace(
        case,
        name=f"{case.name}@{setting}",
        cards=[sys.executable, str(RUN_ON_CUDA), *cards],
        python="python",  # the one with CUDA, which the runner puts first
    )


if __name__ == "__main__":
    sys.exit(zoo.main(zoo.Zoo(cases, HERE / "results.json", BARS, bare_twins=True, parts=tuple(SETTINGS))))
