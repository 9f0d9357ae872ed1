"""How fast this job may read from storage: the limits of its control groups."""

from gputune.core.sample import NOBODY, Metric, Note, Reading, Target, Ticks, now
from gputune.core.units import NS
from gputune.host.cgroup import ReadLimit, read_limits
from gputune.host.procfs import read_text

METRICS: tuple[Metric, ...] = ()
PERIOD = 2.0  # s; a job may enter its group after its start
LATER = 5.0  # s; start-up takes long, and a training that is limited is limited at once
AGAIN = 60.0  # s between readings of the limits of a group that has not changed: they take a millisecond


def attach(target: Target) -> Ticks:
    """Read `io.max`, or `blkio.throttle.*` of version 1, for one training process and the command, when it changes."""
    told: dict[str, ReadLimit] = {}
    groups: dict[int, str | None] = {}
    due = 0
    while True:
        before, groups = groups, {pid: read_text(target.proc / str(pid) / "cgroup") for pid in _looked_at(target)}
        found: dict[str, ReadLimit] = {}
        if groups != before or now() >= due:
            due = now() + round(AGAIN * NS)
            found = _limits(target, list(groups))
        yield [_note(device, limit) for device, limit in found.items() if told.get(device) != limit]
        told.update(found)


def _limits(target: Target, pids: list[int]) -> dict[str, ReadLimit]:
    found: dict[str, ReadLimit] = {}
    for pid in pids:
        for device, limit in read_limits(pid, target.proc, target.sys).items():
            found[device] = limit.tighter(found.get(device, ReadLimit()))
    return found


def _looked_at(target: Target) -> list[int]:
    """Return the command and the first process that trains: the others are in their groups."""
    mains = [pid for pid, role in target.pids().items() if role == "main"]
    return list(dict.fromkeys([target.root_pid, *mains[:1]]))


def _note(device: str, limit: ReadLimit) -> Reading:
    return Note(NOBODY, {"n": "io.limit", "device": device, "rate": limit.rate, "requests": limit.requests})
