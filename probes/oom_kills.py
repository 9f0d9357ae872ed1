"""Whether the kernel killed processes for want of memory: the cause of a death that looks like nobody's."""

from pathlib import Path

from gputune.core.sample import Note, Target, Ticks, Unavailable
from gputune.host.cgroup import folders
from gputune.host.procfs import OpenProcFile

METRICS = ()
PERIOD = 5.0  # s; what counts is the last look, after the command's end
COUNTERS = ("memory.events", "memory.oom_control")  # of version 2 and 1; both have a row `oom_kill N`
ROW = b"oom_kill "


def attach(target: Target) -> Ticks:
    """Read `oom_kill` of the command's control group, of the whole machine where that has none.

    Others may be in that group, or on that machine: it counts who was killed, and does not name them. Source: kernel
    documentation of cgroup-v2 (`memory.events`) and cgroup-v1 (`memory.oom_control`), and `/proc/vmstat` since 4.13.
    """
    groups = [
        folder / name for folder in folders(target.root_pid, "memory", target.proc, target.sys) for name in COUNTERS
    ]
    counter, where = _counter([(file, "control group") for file in groups] + [(target.proc / "vmstat", "machine")])
    try:
        before = told = _count(counter.read())
        while True:
            now = _count(counter.read())
            yield [] if now == told else [Note(-1, {"n": "oom_kills", "count": now - before, "where": where})]
            told = now
    finally:
        counter.close()


def _counter(files: list[tuple[Path, str]]) -> tuple[OpenProcFile, str]:
    """Open the first of these files that counts kills."""
    for file, where in files:
        try:
            kept = OpenProcFile(file)
        except OSError:
            continue
        if ROW in kept.read():
            return kept, where
        kept.close()
    raise Unavailable("neither the command's control group nor the kernel counts whom it kills for want of memory")


def _count(data: bytes) -> int:
    return int(data[data.index(ROW) + len(ROW) :].split(None, 1)[0])
