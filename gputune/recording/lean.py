"""pyarrow at half its price, for a process that only records."""

import functools
import importlib
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import cast

HEAVY = ("numpy", "pandas")  # pyarrow takes them along where they are installed: +200 ms and +60 MiB
_LOCK = threading.RLock()
_ours = False  # whether this process is one of gputune's own


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
    pyarrow is imported, as it is, when a recording first writes.
    """
    global _ours  # noqa: PLW0603 - of the process
    _ours = True
    if "pyarrow" not in sys.modules:
        with _absent(HEAVY):
            importlib.import_module("pyarrow").array([None])  # at its first conversion it looks for pandas, once
    arrow = sys.modules["pyarrow"]
    arrow.set_memory_pool(arrow.system_memory_pool())  # the default one keeps 10 MB, and takes GB of addresses


@contextmanager
def lid() -> Iterator[None]:
    """Bound what memory the process takes meanwhile: what a file blows up to then fails, and takes nothing with it.

    What a file says of itself is looked at before, but a page's own head is known to pyarrow alone. In a process of
    gputune's own only, one that was made `lean`: for moments the bound is that of all threads.
    """
    if not _ours:
        yield
        return
    with _LOCK:
        _settle()
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        # 1 << 30 B of address space that reading one part of a recording may take: some ten times what a large one
        # does
        wanted = pages * resource.getpagesize() + (1 << 30)
        bound = soft == resource.RLIM_INFINITY or soft > wanted
        if bound:
            resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
        try:
            yield
        finally:
            if bound:
                resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@functools.cache
def _settle() -> None:
    """Let pyarrow's allocator take its 1 GiB of addresses, which it does at its first use, before there is a bound."""
    arrow = sys.modules["pyarrow"]
    with suppress(NotImplementedError):  # a pyarrow without it
        arrow.allocate_buffer(1, memory_pool=arrow.mimalloc_memory_pool())


def keeping() -> ModuleType:
    """Import what turns frames into Parquet, likewise: that takes half the time and 18 MB instead of 28."""
    with _absent(HEAVY):
        return importlib.import_module("gputune.recording.keeping")
