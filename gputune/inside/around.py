"""Whether somebody records this process already: then a watch of its own does not, and both say so."""

import contextlib
import os
import sys

from gputune.watching import RANKS

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


def rank() -> int:
    """Return which rank of its job this process is, as its launcher or the group that it has joined says; else 0."""
    told = [os.environ[name] for name in RANKS if os.environ.get(name, "").isdigit()]
    if told:
        return int(told[0])
    distributed = sys.modules.get("torch.distributed")
    try:
        grouped = distributed is not None and distributed.is_available() and distributed.is_initialized()
        return int(distributed.get_rank()) if distributed is not None and grouped else 0
    except Exception:  # noqa: BLE001 - no group, or one that is going down
        return 0
