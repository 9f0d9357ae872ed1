"""Where a run ran, for a reader elsewhere: what run.json says of the machine and of the code.

None of it is asked before the command runs, and only of a run that is old enough to be recorded: in a moment that is
nobody's. What needs a process of its own (whether the code has changes that are in no commit) is heard of later.
"""

import os
from contextlib import suppress
from pathlib import Path

from gputune.core import opening
from gputune.core.sample import Json
from gputune.host import cgroup
from gputune.watching.recorder.revision import Revision

DRIVER = "module/nvidia/version"  # below /sys


def machine(pid: int, proc: Path = Path("/proc"), sys: Path = Path("/sys")) -> dict[str, Json]:
    """Return CPUs (online, and what the command's process may use), memory (B) and the driver of the devices."""
    import psutil  # noqa: PLC0415 - 12 ms, in a recorder that has begun

    pid = pid if (proc / str(pid)).exists() else os.getpid()  # it has ended: ours are what it was given
    allowed: float = len(os.sched_getaffinity(pid))
    quota = cgroup.cpu_quota(pid, proc, sys)
    found: dict[str, Json] = {
        "cpus": {"online": os.cpu_count(), "allowed": allowed if quota is None else min(allowed, quota)},
        "memory": int(psutil.virtual_memory().total),
    }
    with suppress(OSError, ValueError):  # no device of NVIDIA's
        found["driver"] = opening.read(sys / DRIVER).decode("ascii").strip()
    return found


class Facts:
    """Gathers them once, beside the recording. No method raises, and none waits but `close`, for a moment."""

    def __init__(self, pid: int, command: tuple[str, ...], cwd: str) -> None:
        self._pid = pid
        self._revision = Revision(command, cwd)

    def begin(self) -> dict[str, Json]:
        """Return what is known at once, for run.json."""
        found: dict[str, Json] = {}
        with suppress(Exception):  # psutil fails, or is not there: a fact less
            found.update(machine(self._pid))
        with suppress(Exception):  # whatever lies in a folder that is called `.git`
            found.update(self._revision.begin())
        return found

    def look(self) -> dict[str, Json]:
        """Return what has become known since."""
        return self._revision.look()

    def close(self) -> dict[str, Json]:
        """Return the rest, where it comes in a moment."""
        return self._revision.close()
