"""What the disks of this machine read, wrote and how long they were busy, for anyone."""

import contextlib
from pathlib import Path
from typing import NamedTuple

from gputune.core.sample import NOBODY, Json, Metric, Note, Reading, Sample, Target, Ticks, Unavailable, now
from gputune.core.units import NS
from gputune.host.procfs import PAGE, OpenProcFile, read_text

PERIOD = 1.0  # s; a disk's counters say nothing that a training feels within less
READ = Metric("disk.read", "B", "Bytes read from the disk since boot, by anyone.", "counter", per="disk")
WRITTEN = Metric("disk.write", "B", "Bytes written to the disk since boot, by anyone.", "counter", per="disk")
BUSY = Metric(
    "disk.busy", "ratio", "Share of time with a request under way; parallel disks are not full at 1.", per="disk"
)
QUEUE = Metric("disk.queue", "1", "Read requests under way, mean over the time since the last reading.", per="disk")
REQUEST = Metric("disk.request", "B", "Mean size of the read requests that ended since the last reading.", per="disk")
METRICS = (READ, WRITTEN, BUSY, QUEUE, REQUEST)

SECTOR = 512  # B; the unit of these counters, whatever the disk's own is
MS = 1_000_000  # ns


def attach(target: Target) -> Ticks:
    """Read `/sys/block/DISK/stat` of whole disks: a partition, a mapped or a RAID device would count its disks twice.

    One file each: `/proc/diskstats` adds up all devices of the machine, every loop device too, for one row that counts.
    Source: the kernel's Documentation/block/stat.rst.
    """
    names = sorted(folder.name for folder in (target.sys / "block").glob("*") if (folder / "device").exists())
    known: list[_Disk] = []
    try:
        for name in names[:16]:  # disks; a storage server has hundreds, and the recording a column for each
            with contextlib.suppress(OSError):
                known.append(_Disk(target.sys / "block" / name))
        if not known:
            raise Unavailable("no disk of its own is visible here: storage is seen through processes and pressure only")
        readings = _kinds(target, known)
        while True:
            for disk in known:
                readings += disk.samples(now())
            yield readings
            readings = []
    finally:
        for disk in known:
            disk.close()


class _Counts(NamedTuple):
    """What a disk had counted when it was last read."""

    t: int
    busy: int  # ms
    reads: int
    read: int  # sectors
    reading: int  # ms, all requests added up


class _Disk:
    """One disk: its counters, kept open, and what they were when they were last read."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self._file = OpenProcFile(folder / "stat", PAGE)
        self._before: _Counts | None = None

    def close(self) -> None:
        """Let go of its file."""
        self._file.close()

    def samples(self, t: int) -> list[Reading]:
        """Return the samples of `t` (ns), which is now; none where the disk has gone."""
        try:
            words = self._file.read().split(None, 10)
        except OSError:
            return []
        if len(words) < 10:
            return []
        counts = _Counts(t, int(words[9]), int(words[0]), int(words[2]), int(words[3]))
        readings: list[Reading] = [
            Sample(READ, t, counts.read * SECTOR, self.name),
            Sample(WRITTEN, t, int(words[6]) * SECTOR, self.name),
        ]
        before = self._before
        if before is None:
            self._before = counts
        elif t - before.t >= 0.05 * NS:  # s; the kernel counts busy time in its own ticks of 1 to 10 ms
            self._before = counts
            readings += _since(before, counts, self.name)
        return readings


def _kinds(target: Target, disks: list[_Disk]) -> list[Reading]:
    """Return what each disk is, said once: one with turning platters serves one request at a time."""
    found: list[Reading] = []
    for disk in disks:
        folder = target.sys / "block" / disk.name
        with contextlib.suppress(OSError):
            turns = (folder / "queue" / "rotational").read_text().strip() == "1"
            parts = _parts(folder)
            found.append(Note(NOBODY, {"n": "disk", "disk": disk.name, "rotational": turns, "parts": parts}))
    return found


def _parts(disk: Path) -> list[Json]:
    """Return the numbers (`major:minor`) and names of the devices whose data lie on a disk, its own among them.

    Partitions, and what is made of them: volumes, encrypted and RAID devices (`holders`), which may lie on more disks.
    """
    devices: dict[str, Path] = {}
    todo = [disk]
    while todo and len(devices) < 64:  # partitions of a disk, and what is made of them
        device = todo.pop(0)
        if device.name not in devices:
            devices[device.name] = device
            todo += [file.parent for file in sorted(device.glob("*/partition"))]
            todo += sorted((device / "holders").glob("*"))
    words = [(_word(device / "dev"), name, _word(device / "dm" / "name")) for name, device in devices.items()]
    return [word for device in words for word in device if word]


def _word(file: Path) -> str:
    return (read_text(file) or "").strip()


def _since(before: _Counts, counts: _Counts, disk: str) -> list[Reading]:
    passed, reads = counts.t - before.t, counts.reads - before.reads
    readings: list[Reading] = [
        Sample(BUSY, counts.t, min(1.0, max(0, counts.busy - before.busy) * MS / passed), disk),
        Sample(QUEUE, counts.t, max(0, counts.reading - before.reading) * MS / passed, disk),
    ]
    if reads > 0:
        readings.append(Sample(REQUEST, counts.t, (counts.read - before.read) * SECTOR / reads, disk))
    return readings
