"""What a larger batch would buy: the device's part of a round grows with it, the host's is paid once a round.

So is the optimizer's on the device: it has the weights to go through, however many samples there were.

A device works behind the host. What of its work the host waits for at present (a result that is read, a full queue)
comes on top of the host's own time and grows with the batch; the rest runs beside the host, until it takes longer
than that.
"""

from dataclasses import dataclass

from gputune.core.figures import TINY, mean
from gputune.features import Loader, Process

BESIDE = frozenset({"sync", "copy.h2d"})  # spans in which the host waits for its device
OFF = 0.08  # of a gain: what the host's own time grows with a batch, and what a device saves on larger ones


@dataclass(frozen=True, slots=True)
class Turn:
    """One round of a loop, in s: in all, on the device, of that awaited by the host, and what else grows with a batch.

    `awaited` is None where it was not measured: none of the device's work or all of it. `filled` is the share of the
    device that a kernel of it keeps busy: up to a full one, a larger batch takes it no longer. `update` s of the
    device's are the optimizer's. `making` is what the loader's workers need for a batch, all of them together: they
    make no more samples/s of larger ones.
    """

    total: float
    device: float
    grows: float
    awaited: float | None
    filled: float = 1.0
    update: float = 0.0
    making: float = 0.0

    def gain(self, times: float, awaited: float | None = None) -> float:
        """Return samples/s with a batch `times` as large over those now, if the host waits for `awaited` s of work."""
        if awaited is None:
            awaited = self.device if self.awaited is None else self.awaited
        device = self._worked(max(1.0, times * self.filled))
        host = max(0.0, self.total - awaited - self.grows)
        then = host + awaited * device / max(TINY, self.device) + times * self.grows
        return times * self.total / max(then, device + times * self.grows, times * self.making)

    def _worked(self, longer: float) -> float:
        """Return the s of the device where what grows with the batch takes so many times as long."""
        return longer * (self.device - self.update) + self.update

    @property
    def most(self) -> float:
        """Return the gain that no batch exceeds, however large."""
        return self.total / max(TINY, (self.device - self.update) * self.filled + self.grows, self.making)

    def bounds(self, times: float) -> tuple[float, float, float]:
        """Return the least, the likely and the greatest gain from a batch `times` as large."""
        likely = self.gain(times)
        low = min(likely, self.gain(times, self.device)) * (1 - OFF)
        high = max(likely, self.gain(times, 0.0)) * (1 + OFF)
        return max(0.01, low), likely, max(likely, min(high, times))


def turn(process: Process, loader: Loader, device: float, grows: float, filled: float = 1.0) -> Turn:
    """Return a round of a loop, of which the share `device` is work on the device and `grows` other work per sample."""
    total = process.loop / max(1, process.batches)
    worked = min(total, device * total)
    timed = process.device_step
    update = min(worked, timed.update or 0.0) if timed is not None else 0.0
    grows, awaited, making = min(grows * total, total - worked), _awaited(process, loader, worked), made(loader)
    return Turn(total, worked, grows, awaited, filled, update, min(total, making))


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
