"""What the disks of this machine read, wrote and how long they were busy, for anyone."""

from gputune.procfs import Kept
from gputune.sample import Metric, Reading, Sample, Target, Ticks, Unavailable, now
from gputune.units import NS

PERIOD = 1.0  # s; a disk's counters say nothing that a training feels within less
READ = Metric("disk.read", "B", "Bytes read from the disk since boot, by anyone.", "counter", per="disk")
WRITTEN = Metric("disk.write", "B", "Bytes written to the disk since boot, by anyone.", "counter", per="disk")
BUSY = Metric(
    "disk.busy", "ratio", "Share of time with a request under way; parallel disks are not full at 1.", per="disk"
)
METRICS = (READ, WRITTEN, BUSY)

SECTOR = 512  # B; the unit of /proc/diskstats, whatever the disk's own is
MOST = 16  # disks; a storage server has hundreds, and the recording a column for each
SHORT = 0.05  # s; the kernel counts busy time in its own ticks of 1 to 10 ms


def attach(target: Target) -> Ticks:
    """Read `/proc/diskstats` of whole disks: a partition, a mapped or a RAID device would count its disks twice.

    Source: the kernel's Documentation/admin-guide/iostats.rst.
    """
    disks = {folder.name.encode() for folder in (target.sys / "block").glob("*") if (folder / "device").exists()}
    if not disks:
        raise Unavailable("no disk of its own is visible here: storage is seen through processes and pressure only")
    try:
        stats = Kept(target.proc / "diskstats")
    except OSError as reason:
        raise Unavailable(f"`{target.proc / 'diskstats'}` cannot be read: {reason.strerror}") from reason
    disks = set(sorted(disks)[:MOST])
    busy: dict[str, tuple[int, int]] = {}
    try:
        while True:
            yield _tick(stats.read(), disks, busy)
    finally:
        stats.close()


def _tick(data: bytes, disks: set[bytes], busy: dict[str, tuple[int, int]]) -> list[Reading]:
    """Return the samples of one reading; `busy` keeps by disk when it was last read and its ms of busy time then."""
    t = now()
    readings: list[Reading] = []
    for line in data.split(b"\n"):
        words = line.split(None, 13)
        if len(words) < 13 or words[2] not in disks:
            continue
        disk, ms = words[2].decode(), int(words[12])
        readings.append(Sample(READ, t, int(words[5]) * SECTOR, disk))
        readings.append(Sample(WRITTEN, t, int(words[9]) * SECTOR, disk))
        since, before = busy.setdefault(disk, (t, ms))
        if t - since >= SHORT * NS:
            busy[disk] = (t, ms)
            readings.append(Sample(BUSY, t, min(1.0, max(0, ms - before) * 1e6 / (t - since)), disk))
    return readings
