"""The part of the gatherer that knows what was read: batch by batch, epoch by epoch, and from which disk."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gputune.core.events import ReadsCode, Record
from gputune.core.mounts import holding
from gputune.core.sample import Json
from gputune.core.units import NS
from gputune.features import Filing, Reads, Storage, Variety

if TYPE_CHECKING:
    from gputune.gathering.host import HostMeans  # it imports us

BATCHES_KEPT = 400  # sampled batches kept, the latest: one in sixteen of those that the model looks at, and some more
RATES = frozenset(
    {"disk.read", "disk.write", "net.sent", "net.dropped", "net.segments", "net.resent", "pressure.io"}
)  # counters whose pace over the loop is wanted
ANONYMOUS = "0:"  # how the numbers of file systems begin that are on no block device, or on several


@dataclass(slots=True)
class GrowthRate:
    """How fast a counter grew: over the loop, and between the two readings between which it grew most."""

    first: tuple[int, float] | None = None
    last: tuple[int, float] = (0, 0.0)
    best: float = 0.0

    def add(self, t: int, value: float) -> None:
        """Take one reading; `t` in ns."""
        if self.first is None:
            self.first = (t, value)
        # 200_000_000 between two readings for their pace to count: shorter ones are mostly rounding
        elif t - self.last[0] >= 200_000_000:
            self.best = max(self.best, (value - self.last[1]) / (t - self.last[0]) * NS)
        elif t > self.last[0]:  # too soon: the next one counts from the one before
            return
        self.last = (t, value)

    def begin(self) -> None:
        """Count the mean from here: the training loop begins."""
        if self.first is not None:
            self.first = self.last

    @property
    def mean(self) -> float | None:
        """Return the growth a second, None where two readings are missing."""
        if self.first is None or self.last[0] <= self.first[0]:
            return None
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0]) * NS


@dataclass(slots=True)
class Varieties:
    """Of which files batches are made, by the process that has looked at most of them."""

    told: Variety | None = None

    def take(self, fields: Mapping[str, Json]) -> None:
        """Take what a process, or one of several workers, said of the files that it has looked at."""
        known = self.told or Variety()
        if fields.get("n") == "held":
            self.told = replace(known, held=max(known.held, _number(fields, "bytes")))
        elif _number(fields, "looked") > known.looked:
            looked, files = int(_number(fields, "looked")), int(_number(fields, "files"))
            self.told = replace(known, looked=looked, files=files, size=_number(fields, "bytes"))


def _number(fields: Mapping[str, Json], name: str) -> float:
    value = fields.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


@dataclass(slots=True)
class Pass:
    """What was read for the batches of one epoch."""

    fetched: int = 0
    blocked: int = 0  # ns
    sampled: int = 0
    asked: int = 0  # B
    stored: int = 0  # B

    def fetch(self, record: Record) -> None:
        """Take how one batch was made."""
        self.fetched += 1
        self.blocked += max(0, record.t1 - record.t0 - record.a - max(0, record.b))

    def reads(self, record: Record) -> None:
        """Take what one sampled batch read, where that is known."""
        if record.b >= 0:
            self.sampled += 1
            self.asked += max(record.b, record.d)
            self.stored += record.d

    def per_batch(self) -> tuple[float | None, float | None, float | None]:
        """Return (s blocked, B asked, B from storage), the mean a batch; None where nothing is known."""
        blocked = self.blocked / self.fetched / NS if self.fetched else None
        if not self.sampled:
            return blocked, None, None
        return blocked, self.asked / self.sampled, self.stored / self.sampled


@dataclass(slots=True)
class SampledReads:
    """The sampled batches of one loader."""

    reads: deque[Reads] = field(default_factory=lambda: deque(maxlen=BATCHES_KEPT))
    locks: dict[int, Record] = field(default_factory=dict)  # of batches whose other record is yet to come, by t0

    def locked(self, record: Record) -> None:
        """Take what one sampled batch had to do with locks."""
        if len(self.locks) >= BATCHES_KEPT:
            self.locks.clear()
        self.locks[record.t0] = record

    def take(self, record: Record) -> None:
        """Take what one sampled batch opened and read. A page that is mapped is read and not asked for."""
        known = record.b >= 0
        lock = self.locks.pop(record.t0, None)
        self.reads.append(
            Reads(
                wall=(record.t1 - record.t0) / NS,
                samples=record.e,
                opens=record.c,
                opening=record.a / NS,
                asked=max(record.b, record.d) if known else None,
                stored=record.d if known else None,
                direct=bool(record.code & ReadsCode.DIRECT),
                held=lock.a / NS if lock else 0.0,
                locked_out=lock.b / NS if lock else 0.0,
            )
        )


def filing(fields: Mapping[str, Json]) -> Filing:
    """Return what one small file costs, out of the note that a guest tells it in."""
    naming, opening, ending = (int(str(fields[name])) / NS for name in ("naming", "opening", "ending"))
    kept = fields.get("kept")
    return Filing(naming=naming, opening=opening, ending=ending, kept=kept if isinstance(kept, bool) else None)


def storage(host: "HostMeans", folders: Iterable[tuple[str, str]] = ()) -> Storage | None:
    """Return the disk that was read most from, None where none was seen: of those that batches are read from, if known.

    `folders` are what batches are read from, each with the device that it lies on.
    """
    read = {disk: rate for (name, disk), rate in host.rates.items() if name == "disk.read" and rate.mean is not None}
    if not read:
        return None
    theirs = _disks(host, folders) & read.keys()
    disk = max(theirs or read, key=lambda name: read[name].mean or 0.0)
    written = host.rates.get(("disk.write", disk))
    pressure = host.rates.get(("pressure.io", ""))
    stalled = pressure.mean if pressure else None
    return Storage(
        disk=disk,
        rate=read[disk].mean or 0.0,
        best=max(read[disk].best, read[disk].mean or 0.0),
        written=(written.mean or 0.0) if written else 0.0,
        busy=host.mean("disk.busy", disk),
        queue=host.mean("disk.queue", disk),
        request=host.mean("disk.request", disk),
        rotational=host.rotational.get(disk, False),
        workers_blocked=host.mean("workers.blocked"),
        main_blocked=host.mean("main.blocked"),
        stalled=None if stalled is None else min(1.0, stalled / 1e6),
    )


def _disks(host: "HostMeans", folders: Iterable[tuple[str, str]]) -> set[str]:
    """Return the disks that these folders lie on; none where that is not known of each of them."""
    found: set[str] = set()
    for device, folder in folders:
        mount = holding(host.mounts, device, folder)
        if mount is not None and (mount.remote or mount.in_memory):
            continue
        names = {device}
        if mount is not None and device.startswith(ANONYMOUS):  # btrfs: the mount names one of its devices
            names |= {mount.device, mount.source.rpartition("/")[2]}
        disks = {disk for disk, parts in host.parts.items() if names & parts}
        if not disks:
            return set()
        found |= disks
    return found
