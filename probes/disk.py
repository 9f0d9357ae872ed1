"""What the disks of this machine read, wrote and how long they were busy, for anyone."""

import contextlib
from typing import NamedTuple

from gputune.procfs import Kept
from gputune.sample import Metric, Note, Reading, Sample, Target, Ticks, Unavailable, now
from gputune.units import NS

PERIOD = 1.0  # s; a disk's counters say nothing that a training feels within less
READ = Metric("disk.read", "B", "Bytes read from the disk since boot, by anyone.", "counter", per="disk")
WRITTEN = Metric("disk.write", "B", "Bytes written to the disk since boot, by anyone.", "counter", per="disk")
BUSY = Metric(
    "disk.busy", "ratio", "Share of time with a request under way; parallel disks are not full at 1.", per="disk"
)
QUEUE = Metric("disk.queue", "1", "Read requests under way, mean over the time since the last reading.", per="disk")
REQUEST = Metric("disk.request", "B", "Mean size of the read requests that ended since the last reading.", per="disk")
METRICS = (READ, WRITTEN, BUSY, QUEUE, REQUEST)

SECTOR = 512  # B; the unit of /proc/diskstats, whatever the disk's own is
MOST = 16  # disks; a storage server has hundreds, and the recording a column for each
MS = 1_000_000  # ns
NOBODY = -1  # whose notes are the machine's own
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
    known: dict[str, _Counts] = {}
    try:
        yield [*_kinds(target, disks), *_tick(stats.read(), disks, known)]
        while True:
            yield _tick(stats.read(), disks, known)
    finally:
        stats.close()


class _Counts(NamedTuple):
    """What a disk had counted when it was last read."""

    t: int
    busy: int  # ms
    reads: int
    read: int  # sectors
    reading: int  # ms, all requests added up


def _kinds(target: Target, disks: set[bytes]) -> list[Reading]:
    """Return what kind of disk each is, said once: one with turning platters serves one request at a time."""
    found: list[Reading] = []
    for disk in sorted(disks):
        file = target.sys / "block" / disk.decode() / "queue" / "rotational"
        with contextlib.suppress(OSError):
            turns = file.read_text().strip() == "1"
            found.append(Note(NOBODY, {"n": "disk", "disk": disk.decode(), "rotational": turns}))
    return found


def _tick(data: bytes, disks: set[bytes], known: dict[str, _Counts]) -> list[Reading]:
    """Return the samples of one reading; `known` keeps what each disk had counted at the one before."""
    t = now()
    readings: list[Reading] = []
    for line in data.split(b"\n"):
        words = line.split(None, 13)
        if len(words) < 13 or words[2] not in disks:
            continue
        disk = words[2].decode()
        counts = _Counts(t, int(words[12]), int(words[3]), int(words[5]), int(words[6]))
        readings.append(Sample(READ, t, counts.read * SECTOR, disk))
        readings.append(Sample(WRITTEN, t, int(words[9]) * SECTOR, disk))
        before = known.setdefault(disk, counts)
        if t - before.t >= SHORT * NS:
            known[disk] = counts
            readings += _since(before, counts, disk)
    return readings


def _since(before: _Counts, counts: _Counts, disk: str) -> list[Reading]:
    passed, reads = counts.t - before.t, counts.reads - before.reads
    readings: list[Reading] = [
        Sample(BUSY, counts.t, min(1.0, max(0, counts.busy - before.busy) * MS / passed), disk),
        Sample(QUEUE, counts.t, max(0, counts.reading - before.reading) * MS / passed, disk),
    ]
    if reads > 0:
        readings.append(Sample(REQUEST, counts.t, (counts.read - before.read) * SECTOR / reads, disk))
    return readings
