"""What making batches asks of storage, and what storage can give: the view that the advisors on storage share.

Three things are told apart in the time for which the making of a batch neither runs nor wants to: waiting for an answer
(more readers at once shorten it for all), waiting for a disk that is at its limit (more readers do not), and what has
nothing to do with storage, like a sleep or a remote service.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gputune.core.figures import mean
from gputune.core.mounts import Mount, holding
from gputune.features import Features, Loader, Process, Reads, Storage, Variety
from gputune.model.replay import LoopSeries, Work

FULL = 512 * 1024  # B under way at all times at which a disk is at its limit: rate times latency of fast SSDs and of
#                    network disks alike (3 GB/s x 0.15 ms, 0.5 GB/s x 1 ms)
LEAST = 8  # sampled batches below which their means say nothing
NOTABLE = 0.1  # of the time of making a batch: what takes less is not what it waits for
MISSED = 0.3  # of the bytes from storage in later epochs: from here on the page cache does not hold the data set
SEEK_S = 0.002  # s for a request at which platters do seek
NEARLY = 0.7  # of the time in which the disk at its limit works: from here on readers wait for each other
CLOSING = (0.8, 1.0, 2.8)  # of the time to open a small file that naming, reading and closing it take: with its name at
#                            hand; usually; through a path object and as text. Only where no file has shown it
NAMED = 0.5  # of the time to make a path object, in recordings that do not say whether files have one each
AROUND = 1.5  # times: at most it is so much more, for what is done with a file, and in colder caches after it
NOISE = 4096  # B a batch: reading the counters is counted as well
CACHE_RATE = 4e9  # B/s at which one thread copies from the page cache
NEAR_RATE = 1e9  # B/s of an ordinary local disk of today, or a page cache that is warm every other time
ROOM = 0.8  # of the free memory that a data set may take
MIXED = 0.1  # of what batches ask for from a disk here: from there on it may be what they wait for, beside a server


@dataclass(frozen=True, slots=True)
class Demand:
    """What one batch of a loader asks of storage, means over sampled batches."""

    samples: float
    opens: float
    opening: float  # s in opening files, standing in line for a CPU left out
    asked: float | None  # B; None where the kernel does not count
    stored: float | None  # B of these that came from storage and not from the page cache
    direct: bool  # past the page cache
    disk: float  # s that a disk at its limit needs for it if nobody else reads; 0 where it has room left
    waiting: float  # s for which the making stood still for storage
    blocked: float  # s for which it stood still for anything
    closing: tuple[float, float, float] = CLOSING  # of `opening` that the rest of a file costs: least, likely, most

    @property
    def missed(self) -> float:
        """Return the share of the bytes that came from storage."""
        return min(1.0, (self.stored or 0.0) / self.asked) if self.asked else 0.0

    @property
    def open_s(self) -> float:
        """Return the s that it takes to open one file, of a batch that opens any."""
        return self.opening / self.opens

    @property
    def handling(self) -> float:
        """Return the s a batch that go into naming, opening, ending and closing files, whatever is in them."""
        return self.opening * (1 + self.closing[1])


def demand(run: Features, loader: Loader) -> Demand | None:
    """Return what a batch of this loader asks of storage, None where too little is known."""
    reads = loader.reads
    if len(reads) < LEAST or not loader.fetches:
        return None
    counted = [r for r in reads if r.asked is not None]
    asked = mean(max(0.0, (r.asked or 0) - NOISE) for r in counted) if counted else None
    stored = _stored(loader, counted)
    asked = None if asked is None else max(asked, stored or 0.0)
    disk = max(_allowed(run, stored), _served_alone(run.storage, stored)) if stored else 0.0
    return Demand(
        samples=mean(r.samples for r in reads) or float(loader.batch_size or 0),
        opens=mean(r.opens for r in reads),
        opening=mean(r.opening for r in reads) * _served(loader),
        asked=asked,
        stored=stored,
        direct=2 * sum(r.direct for r in reads) > len(reads),
        disk=disk,
        waiting=_waiting(run, loader, disk) if stored is None or stored > NOISE else 0.0,
        blocked=mean(f.blocked for f in loader.fetches),
        closing=_closing(loader),
    )


def _closing(loader: Loader) -> tuple[float, float, float]:
    """Return what naming, reading and closing a file cost, of its opening: as one of them has shown it."""
    filing = loader.filing
    if filing is None or not filing.opening:
        return CLOSING
    ending, naming = filing.ending / filing.opening, filing.naming / filing.opening
    named = NAMED if filing.kept is None else 0.0 if filing.kept else 1.0
    surely = ending + naming if filing.kept is False else ending
    return surely, ending + named * naming, AROUND * (ending + naming)


def _stored(loader: Loader, counted: Sequence[Reads]) -> float | None:
    """Return the mean B a batch from storage: epochs count by their batches, for their beginnings are sampled more."""
    epochs = [(e.stored, e.batches) for e in loader.epochs if e.stored is not None and e.batches]
    if epochs:
        return sum(stored * batches for stored, batches in epochs) / sum(batches for _, batches in epochs)
    return mean(r.stored or 0 for r in counted) if counted else None


def _waiting(run: Features, loader: Loader, disk: float) -> float:
    """Return the s for which the making of a batch stood still for storage.

    Of a disk that is at its limit, all that it stood still at all. Else as often as its makers were seen asleep, and
    no less than some task of the machine was known to be, or than the disk needs.
    """
    blocked = mean(f.blocked for f in loader.fetches)
    per_batch = _per_batch(loader)
    if disk >= NEARLY * per_batch:
        return blocked
    return min(blocked, max(disk, _asleep(run, loader) * per_batch))


def _served(loader: Loader) -> float:
    """Return the share of the time of making batches in which their makers did not stand in line for a CPU.

    Opening a file takes longer while others have the CPU, like everything else: that is not the file's price.
    """
    wall = sum(f.wall for f in loader.fetches)
    return 1 - min(1.0, sum(f.queued for f in loader.fetches) / wall) if wall else 1.0


def _asleep(run: Features, loader: Loader) -> float:
    """Return how many of those who make this loader's batches stood still for storage at a time, mean over the loop.

    Their state is looked at now and then; the time in which any task of the machine waited is known exactly, and stands
    for one of them at the least.
    """
    found = run.storage
    if found is None:
        return 0.0
    share = found.workers_blocked if loader.num_workers else found.main_blocked
    return max((share or 0.0) * max(1, loader.num_workers), found.stalled or 0.0)


def _per_batch(loader: Loader) -> float:
    return mean(loader.waits) + mean(loader.steps)


def at_the_limit(run: Features, loader: Loader) -> tuple[float, float]:
    """Return (seconds that the disk alone needs for a batch, readers that shared it), (0, 1) where it has room left.

    A disk is at its limit when enough bytes are under way while it is busy, whoever asked for them; platters that seek
    are with one request. In between, so much of its time counts. What a control group allows is a limit of its own.
    """
    wanted = demand(run, loader)
    if wanted is None or not wanted.disk:
        return 0.0, 1.0
    if wanted.disk < NEARLY * _per_batch(loader):
        return wanted.disk, 1.0
    return wanted.disk, min(float(max(1, loader.num_workers)), max(1.0, wanted.waiting / wanted.disk))


def _served_alone(disk: Storage | None, stored: float) -> float:
    """Return the s that a disk which is at its limit needs for so many bytes; less the more room it has left."""
    if disk is None or not disk.busy or not disk.rate:
        return 0.0
    requests = (disk.queue or 0.0) / disk.busy
    latency = (disk.queue or 0.0) * (disk.request or 0.0) / disk.rate
    seeks = disk.rotational and latency >= SEEK_S  # virtual disks say of themselves that they turn, and answer at once
    limit = 1.0 if seeks else min(1.0, requests * (disk.request or 0.0) / FULL)
    return stored / (disk.rate / disk.busy) * limit


def _allowed(run: Features, stored: float) -> float:
    """Return the s that control groups make the reading of so many bytes take at the least."""
    rate = stored / run.read_rate_limit if run.read_rate_limit else 0.0
    request = (run.storage.request if run.storage else None) or FULL
    return max(rate, stored / request / run.read_request_limit if run.read_request_limit else 0.0)


def data_set(loader: Loader, wanted: Demand) -> float | None:
    """Return the bytes of the whole data set as its files have them, None where its length is not known.

    All that its samples read, but no more than there is in its files: many samples may be read out of few of them.
    """
    if not loader.samples_in_dataset or not wanted.asked or not wanted.samples:
        return None
    return min(loader.samples_in_dataset * wanted.asked / wanted.samples, _in_files(loader.variety))


def _in_files(variety: Variety | None) -> float:
    """Return the bytes that all its files have, as far as those say that were looked at: infinite where it is open."""
    if variety is None:
        return math.inf
    if not variety.looked:
        return variety.held or math.inf
    return _many(variety.looked, variety.files) * variety.size / max(1, variety.files)


def _many(looked: int, files: int) -> float:
    """Return how many files there surely are no more of, where so many openings met that many different ones.

    Of D files that are opened by chance n openings meet D·(1 - exp(-n/D)), give or take what such a count varies by.
    """
    if files >= looked:
        return math.inf
    low, high = float(files), 2.0 * files
    while _met_at_least(high, looked) <= files:
        low, high = high, 2 * high
    for _ in range(60):  # of an interval: to the last digit
        middle = (low + high) / 2
        low, high = (low, middle) if _met_at_least(middle, looked) > files else (middle, high)
    return high


def _met_at_least(many: float, looked: int) -> float:
    """Return how many different ones of `many` files so many openings meet, all but surely."""
    missed = math.exp(-looked / many)
    spread = math.sqrt(max(0.0, many * missed * (1 - (1 + looked / many) * missed)))
    return many * (1 - missed) - 2.0 * spread  # standard deviations of a count that are allowed for


def room(run: Features) -> float | None:
    """Return the bytes of memory that files may take here, None where it is not known."""
    machine = run.machine
    if machine.memory_free is None:
        return None
    free = float(machine.memory_free)
    if machine.memory_limit is not None:
        free = min(free, float(machine.memory_limit - (machine.memory_limited or 0)))
    return ROOM * max(0.0, free)


def returns(run: Features, loader: Loader, wanted: Demand) -> bool | None:
    """Return whether storage is read again in every epoch: the page cache does not hold the data set.

    Later epochs have shown it, or files are opened past the page cache, or the memory is too small. None: not known.
    """
    if wanted.direct:
        return True
    later = [e for e in loader.epochs if e.batches][1:]
    asked = sum(e.asked for e in later if e.asked is not None)
    if asked > 0:
        return sum(e.stored or 0.0 for e in later) / asked >= MISSED
    size, free = data_set(loader, wanted), room(run)
    return None if size is None or free is None else size > free


def cached(job: LoopSeries, loader: Loader, wanted: Demand) -> LoopSeries:
    """Return the work with the wait for storage replaced by a copy of the same bytes from memory."""
    copy = (wanted.asked or 0.0) / CACHE_RATE
    rest = 1 - wanted.waiting / wanted.blocked if wanted.blocked else 1.0
    more = copy if wanted.direct else 0.0  # through the page cache, the copy is in the CPU time already
    pairs = zip(job.fetches, loader.fetches, strict=True)
    return replace(job, fetches=tuple(Work(work.cpu + more, fetch.blocked * rest) for work, fetch in pairs))


def nearby(job: LoopSeries, loader: Loader, wanted: Demand, kept: float = 0.0) -> LoopSeries:
    """Return the work with blocked time, but for `kept` s, replaced by reading as much from an ordinary disk."""
    each = kept + (wanted.asked or 0.0) / NEAR_RATE
    usual = wanted.blocked or 1.0
    pairs = zip(job.fetches, loader.fetches, strict=True)
    return replace(job, fetches=tuple(Work(w.cpu, min(f.blocked, each * f.blocked / usual)) for w, f in pairs))


def mounts(run: Features, process: Process) -> list[Mount]:
    """Return the mounts that the files of a process's batches lie on."""
    found = (holding(run.mounts, device, folder) for device, folder in process.folders.items())
    return list(dict.fromkeys(mount for mount in found if mount is not None))


def here(run: Features, process: Process, loader: Loader, wanted: Demand) -> float:
    """Return the share of what batches ask for that a disk of this machine gave, at most: others may have read it, too.

    1 where no file of theirs lies on another machine, 0 where all do. How much a server gave is not known by itself.
    """
    found = mounts(run, process)
    if not any(mount.remote for mount in found):
        return 1.0
    if run.storage is None or all(mount.remote or mount.in_memory for mount in found):
        return 0.0
    return min(1.0, run.storage.rate * _per_batch(loader) / wanted.asked) if wanted.asked else 1.0


def of_disks(run: Features, process: Process, loader: Loader, wanted: Demand) -> Demand:
    """Return the demand with only what is known to be waiting for a disk of this machine.

    Beside files of another machine that is what the disk needs at its limit, for what it gave: who is asleep waits for
    either.
    """
    if not any(mount.remote for mount in mounts(run, process)):
        return wanted
    return replace(wanted, waiting=min(wanted.waiting, wanted.disk * here(run, process, loader, wanted)))
