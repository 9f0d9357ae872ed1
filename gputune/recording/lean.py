"""pyarrow at half its price, for a process that only records."""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import cast

HEAVY = ("numpy", "pandas")  # pyarrow takes them along where they are installed: +200 ms and +60 MiB


@contextmanager
def _absent(names: tuple[str, ...]) -> Iterator[None]:
    """Make imports of `names` fail, unless they are there already."""
    hidden = [name for name in names if name not in sys.modules]
    modules = cast("dict[str, ModuleType | None]", sys.modules)
    for name in hidden:
        modules[name] = None  # how the import system is told "not there"
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


def lean() -> None:
    """Import pyarrow now, without numpy and pandas: 40 ms and 34 MB instead of 250 ms and 105 MB.

    For the recorder's process only: `to_pandas()` and `to_numpy()` do not work in it afterwards. Without this call
    pyarrow is imported, as it is, when a recording first writes. Where it is imported already, nothing happens.
    """
    if "pyarrow" in sys.modules:
        return
    with _absent(HEAVY):
        arrow = importlib.import_module("pyarrow")
        arrow.array([None])  # pyarrow looks for pandas at its first conversion, and remembers the answer
    arrow.set_memory_pool(arrow.system_memory_pool())  # the default one keeps 10 MB that a recorder never needs


def keeping() -> ModuleType:
    """Import what turns frames into Parquet, likewise: that takes half the time and 18 MB instead of 28."""
    with _absent(HEAVY):
        return importlib.import_module("gputune.recording.keeping")
