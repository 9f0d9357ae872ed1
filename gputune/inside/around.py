"""Whether somebody records this process already: then a watch of its own does not, and both say so."""

import contextlib
import os
import sys
from collections.abc import Mapping
from types import FrameType

from gputune.watching.starting import RANKS

RINGS, ONLY, TRIAL = "GPUTUNE_RINGS", "GPUTUNE_ONLY", "GPUTUNE_TRIAL"
INNER = "inner"  # a file among the rings: a watch inside of the one that they belong to recorded nothing
OURS = "`gputune.watch`"


def around() -> str | None:
    """Return why a watch of our own records nothing here, None where nothing stands in its way.

    An empty string: nobody is to be told, as in a run that gputune makes by itself.
    """
    rings = os.environ.get(RINGS, "")
    if not os.path.isdir(rings):  # noqa: PTH112 - no pathlib in a process of the user's
        return None
    if os.environ.get(TRIAL):
        return ""
    if os.environ.get(ONLY):
        return f"this {OURS} records nothing: `gputune run` around it only changes settings"
    with contextlib.suppress(OSError):
        os.close(os.open(f"{rings}/{INNER}", os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    return f"this {OURS} records nothing: the watch around it does, and says what it has found at its own end"


def launched() -> Mapping[str, str]:
    """Return the environment, with RANK and WORLD_SIZE where this process has joined a group and no launcher says it.

    So do Lightning's own launcher and scripts that spawn their ranks themselves.
    """
    group = None if any(name in os.environ for name in RANKS) else _group()
    return os.environ if group is None else {**os.environ, "RANK": str(group[0]), "WORLD_SIZE": str(group[1])}


def rank() -> int:
    """Return which rank of its job this process is, as its launcher or the group that it has joined says; else 0."""
    environ = launched()
    return next((int(environ[name]) for name in RANKS if environ.get(name, "").isdigit()), 0)


def cell() -> int | None:
    """Return the number of the notebook's cell that is calling, as its reader counts; None elsewhere."""
    shells = sys.modules.get("IPython.core.interactiveshell")
    compiler = getattr(getattr(getattr(shells, "InteractiveShell", None), "_instance", None), "compile", None)
    cells = getattr(compiler, "_filename_map", None) or {}
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename in cells:
            return int(cells[frame.f_code.co_filename])
        frame = frame.f_back
    return None


def _group() -> tuple[int, int] | None:
    """Return (rank, size) of the group of processes that torch has joined, None without one."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is not None and distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
    except Exception:  # noqa: BLE001 - a group that is going down
        return None
    return None
