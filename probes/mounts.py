"""Which file systems are mounted where the training runs: a data set on another machine is read over the network."""

from gputune.core.hygiene import mask
from gputune.core.mounts import Mount, parse
from gputune.core.sample import NOBODY, Metric, Note, Reading, Target, Ticks, Unavailable

PERIOD = 10.0  # s; a mount stays. What is mounted while the training runs is seen a little later
LATER = 60.0  # s
METRICS: tuple[Metric, ...] = ()


def attach(target: Target) -> Ticks:
    """Read `/proc/PID/mountinfo` of the command, which sees what its namespace sees. Source: proc_pid_mountinfo(5)."""
    file = target.proc / str(target.root_pid) / "mountinfo"
    told: set[Mount] = set()
    text = ""
    while True:
        before = text
        try:
            with file.open(encoding="utf-8", errors="replace") as source:
                text = source.read(1 << 20)  # bytes of a mountinfo that are read
        except OSError as reason:
            if not told and file.parent.exists():
                raise Unavailable(f"`{file}` cannot be read: {reason.strerror}") from reason
            text = before  # the command has ended: what was mounted is known, or will never matter
        yield [] if text == before else _new(text, told)


def _new(text: str, told: set[Mount]) -> list[Reading]:
    readings: list[Reading] = []
    for mount in parse(text):
        if mount not in told and len(told) < 64:  # mounts told: a host of containers has thousands, of other people
            told.add(mount)
            (source,) = mask([mount.source])
            fields = {"n": "mount", "device": mount.device, "kind": mount.kind, "source": source, "point": mount.point}
            readings.append(Note(NOBODY, dict(fields)))
    return readings
