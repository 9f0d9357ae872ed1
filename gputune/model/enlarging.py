"""What a larger batch would buy: the device's part of a round grows with it, the host's is paid once a round.

So is the optimizer's on the device: it has the weights to go through, however many samples there were.

A device works behind the host. What of its work the host waits for at present (a result that is read, a full queue)
comes on top of the host's own time and grows with the batch, but for what of it is the optimizer's; the rest runs
beside the host, until it takes longer than that. Copies of batches have the device, and the host that stands in them,
for the longer the more samples there are.
"""

from dataclasses import dataclass

from gputune.core.figures import TINY, mean
from gputune.features import Loader, Process

BESIDE = frozenset({"sync", "copy.h2d"})  # spans in which the host waits for its device
OFF = 0.08  # of a gain: what the host's own time grows with a batch, and what a device saves on larger ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One round of a loop, in s: in `total`, on the `device`, of that `awaited` by the host; what else `grows` with it.

    `awaited` is None where it was not measured: none of the device's work or all of it. `filled` is the share of the
    device that a kernel of it keeps busy: up to a full one, a larger batch takes it no longer. `update` s of the
    device's are the optimizer's, of which `ending` is awaited. `making` is what the loader needs for a batch: its
    workers make and pin no more samples/s of larger ones. `copying` is what the device takes batches from the host
    for, beside its work, and `standing` how long of that the host is held.
    """

    total: float
    device: float
    grows: float = 0.0
    awaited: float | None = None
    filled: float = 1.0
    update: float = 0.0
    ending: float | None = None
    making: float = 0.0
    copying: float = 0.0
    standing: float = 0.0

    def gain(self, times: float, awaited: float | None = None, filled: float | None = None) -> float:
        """Return samples/s with a batch `times` as large over those now, if the host waits for `awaited` s of work.

        And if what is not the optimizer's keeps the device `filled`.
        """
        if awaited is None:
            awaited = self.device if self.awaited is None else self.awaited
        rest = self.device - self.update
        longer = max(1.0, times * (self._likely_filled if filled is None else filled))
        ending, each = min(awaited, self._ending(awaited)), self.grows + self.standing
        host = max(0.0, self.total - awaited - each) + ending + (awaited - ending) * longer + times * each
        device = longer * rest + self.update + times * (self.grows + self.copying)
        return times * self.total / max(host, device, times * self.making)

    def _ending(self, awaited: float) -> float:
        """Return the s awaited that are the optimizer's: as much of it as of all the device's where nothing tells."""
        return awaited * self.update / max(TINY, self.device) if self.ending is None else self.ending

    @property
    def _least_filled(self) -> float:
        """Return what the kernels that grow fill at the least: the optimizer's go through all weights, and may be full.

        Where the device is not even busy for as long as those take, they are not, and nothing more is known.
        """
        rest, full = self.device - self.update, self.filled * self.device - self.update
        return min(self.filled, full / rest) if full > 0 < rest else self.filled

    @property
    def _likely_filled(self) -> float:
        return (self.filled + self._least_filled) / 2

    @property
    def most(self) -> float:
        """Return the gain that no batch exceeds, however large."""
        worked = (self.device - self.update) * self._likely_filled
        return self.total / max(TINY, worked + self.grows + self.copying, self.making)

    def bounds(self, times: float) -> tuple[float, float, float]:
        """Return the least, the likely and the greatest gain from a batch `times` as large."""
        likely = self.gain(times)
        low = min(likely, self.gain(times, self.device, self.filled)) * (1 - OFF)
        high = max(likely, self.gain(times, 0.0, self._least_filled)) * (1 + OFF)
        return max(0.01, low), likely, max(likely, min(high, times))


def turn(process: Process, loader: Loader, device: float, grows: float, filled: float = 1.0) -> Turn:
    """Return a round of a loop, of which the share `device` is work on the device and `grows` other work per sample."""
    total = process.loop / max(1, process.batches)
    worked = min(total, device * total)
    timed, awaited = process.device_step, _awaited(process, loader, worked)
    update = min(worked, timed.update or 0.0) if timed is not None else 0.0
    copying, standing = (seconds / max(1, process.batches) for seconds in copies(process))
    ending = None if timed is None or timed.lag is None else min(awaited or 0.0, max(0.0, update - timed.lag))
    return Turn(
        total=total,
        device=worked,
        grows=min(grows * total, total - worked),
        awaited=awaited,
        filled=filled,
        update=update,
        ending=ending,
        making=min(total, max(made(loader), pinned(loader))),
        copying=min(copying, total - worked),
        standing=min(standing, total - worked),
    )


def copies(process: Process) -> tuple[float, float]:
    """Return the s of a loop in which its device took batches from the host, and for how many of them the host stood.

    Where no clock tells it, those copies that are waited for, at the best rate of any: they wait for work as well.
    """
    timed = process.device_step
    if timed is None:
        took = sum(copy.size / copy.fastest for copy in process.copies if copy.fastest)
        return took, took
    took = timed.copying * process.steps
    return took, min(took, sum(copy.seconds * (1 - copy.pinned * copy.non_blocking) for copy in process.copies))


def pinned(loader: Loader) -> float:
    """Return the s in which the one thread that pins a loader's batches has one pinned, without its queueing."""
    return mean(pin.wall - (pin.queued or 0.0) for pin in loader.pins)


def made(loader: Loader) -> float:
    """Return the s that a loader's workers need for a batch, all of them together; none where the loop makes it."""
    return mean(f.wall for f in loader.fetches) / loader.num_workers if loader.num_workers else 0.0


def _awaited(process: Process, loader: Loader, worked: float) -> float | None:
    """Return the s per round that the host waits for its device, None where no clock and no span tells it."""
    timed = process.device_step
    if timed is not None:
        return min(worked, timed.read_waits + timed.copy_waits + (timed.launch_waits or 0.0))
    spans = sum(process.in_loop.get(name, 0.0) for name in BESIDE) / max(1, process.batches)
    if not loader.step_cpus or not loader.steps:
        return min(worked, spans) if spans else None
    count = len(loader.steps)
    pauses = sum(sum(series) for name, series in loader.pauses.items() if name not in BESIDE) / count
    computed = sum(loader.step_cpus) / len(loader.step_cpus)
    stood = sum(loader.steps) / count - pauses - computed - loader.step_queued
    return max(0.0, min(worked, max(spans, stood)))
