"""The parts of gputune that are built in C where a compiler was at hand, and those that run in Python instead.

They record the same, and cost more: the hooks inside the training about five times as much a batch.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

from gputune.features import Features

HOOKS = "hooks"  # inside the training, where its Python loads them or not
OWN = {"processes": "gputune._proc", "rows": "gputune._rows"}  # loaded by the recorder
GUEST = Path(__file__).parents[1] / "probes" / "guest" / "gputune_guest"
FIX = "with a C compiler and Python's headers: pip install --force-reinstall --no-deps --no-binary gputune gputune"


def lacking(run: Features) -> list[str]:
    """Return the parts that ran in Python in this run."""
    hooks = [HOOKS] if any(process.native is False for process in run.processes) else []
    return [*hooks, *unbuilt()]


def unbuilt(load: Callable[[str], object] = import_module) -> list[str]:
    """Return those of gputune's own parts that cannot be loaded in this Python."""
    return [part for part, module in OWN.items() if not _loads(load, module)]


def _loads(load: Callable[[str], object], module: str) -> bool:
    try:
        load(module)
    except ImportError:
        return False
    return True


def hooks_are_built(folder: Path = GUEST) -> bool:
    """Return whether there is a build of the hooks at all, for whichever Python."""
    return any(_built(folder))


def _built(folder: Path) -> Iterator[Path]:
    yield from folder.glob("_fast.*.so")
    yield from folder.glob("_fast.so")
