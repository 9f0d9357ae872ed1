"""A disk of a known and modest speed, for scripts that are about waiting for one: a control group's limit on reading.

Making such a group needs rights that not everybody has; without them the script leaves with status 77, which is "not
here". The group is the script's own, and goes with it.
"""

import atexit
import contextlib
import os
import sys
import time
from pathlib import Path

NOT_HERE = 77


def limit_reading(device: int, rate: int) -> None:
    """Enter a new control group that may read so many B/s from the device, in either version of the hierarchy."""
    place, rule = f"{os.major(device)}:{os.minor(device)}", "io.max"
    root = Path("/sys/fs/cgroup/blkio")
    text = f"{place} {rate}"
    if root.is_dir():
        rule = "blkio.throttle.read_bps_device"
    else:
        root, text = Path("/sys/fs/cgroup"), f"{place} rbps={rate}"
    group = root / f"gputune-zoo-{os.getpid()}"
    try:
        group.mkdir()
        atexit.register(_leave, root, group)
        (group / rule).write_text(text)
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as reason:
        print(f"not here: no control group may be made: {reason}", file=sys.stderr)
        sys.exit(NOT_HERE)


def _leave(root: Path, group: Path) -> None:
    with contextlib.suppress(OSError):
        (root / "cgroup.procs").write_text(str(os.getpid()))
    end = time.monotonic() + 10
    while group.is_dir() and time.monotonic() < end:  # workers take a moment to end
        with contextlib.suppress(OSError):
            group.rmdir()
        time.sleep(0.02)
