"""What a setting must not use up: the CPUs that this job may use, /dev/shm, and memory; each shared by its ranks."""

from dataclasses import dataclass

from gputune.features import Loader
from gputune.figures import size
from gputune.headroom import left
from gputune.prediction import CANDIDATES, Outlook
from gputune.sweep.settings import Setting

ROOM = 0.8  # of what is left: trainings grow, and batches vary in size
SPARE = 1  # workers more than the CPUs can keep running may be tried: they fill the gaps of the others
TRIFLE = 0.01  # of the memory and of /dev/shm that is left: a queue that takes no more costs nothing
UNKNOWN = 512 << 20  # B that a worker is believed to need where nothing was measured: an interpreter with torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is left for settings other than the script's own. B of memory and batches of queues are of one rank."""

    workers: int
    batches: float  # that find room in /dev/shm
    memory: float | None  # B left to this rank beside what it takes now; None: not known
    worker: int  # B that one worker takes
    batch: int  # B of one batch
    script: Setting
    shared: bool = True  # a stream that does not share itself out gets no second worker

    def refuses(self, wanted: Setting) -> str:
        """Return what a setting would use up, in words; nothing where it fits."""
        if wanted.num_workers > max(1, self.script.num_workers) and not self.shared:
            return "its dataset is a stream: each worker would return all of it"
        if wanted.num_workers > self.workers:
            return f"the CPUs of this job have work for {self.workers} workers at most"
        if wanted.num_workers and wanted.queue > self.batches:
            return f"{wanted.queue} batches of {size(self.batch)} do not fit into /dev/shm"
        more = self.needs(wanted) - self.needs(self.script)
        if self.memory is not None and more > self.memory:
            return f"it would take {size(more)} more memory, and {size(self.memory)} may be used"
        return ""

    def needs(self, wanted: Setting) -> float:
        """Return the B of memory that workers and queues of a setting take, in one rank."""
        return wanted.num_workers * self.worker + self.shm(wanted)

    def trifling(self, wanted: Setting) -> bool:
        """Return whether full queues of a setting are known to take next to nothing of what is left."""
        if not self.batch or self.memory is None:
            return False
        return self.shm(wanted) <= TRIFLE * self.memory and wanted.queue <= TRIFLE * self.batches

    def shm(self, wanted: Setting) -> int:
        """Return the B of /dev/shm that full queues of a setting take, in one rank."""
        return wanted.queue * self.batch


def limits(outlook: Outlook, script: Setting, held: int | None) -> Limits:
    """Return the limits as the profile shows them. `held`: B of memory that the training's processes held in it."""
    machine, loader = outlook.run.machine, outlook.loader
    found = left(machine)
    return Limits(
        workers=min(CANDIDATES[-1], outlook.fitting_workers() + SPARE + _idle(outlook)),
        batches=outlook.queued_batches(),
        memory=None if found is None else ROOM * found[1] / machine.ranks,
        worker=_worker(loader, held, machine.ranks),
        batch=(loader.batch_bytes_most or 0) if loader.batch_shared else 0,
        script=script,
        shared=not loader.iterable or bool(loader.shards),
    )


def _idle(outlook: Outlook) -> int:
    """Return how many workers more than the CPUs can keep running do no harm: one a CPU, or none.

    CPUs are used up by batches, not by the number of those who make them. Where the steps set the pace and leave CPUs
    idle, more workers run no more often; but one that rests hands over its batch at once, and one that makes the next
    batch does not before Python lets its other thread run.
    """
    used = (outlook.making_cpu + outlook.step_cpu) / max(1e-9, outlook.stepping)  # cores
    return round(outlook.job.cpus) if used <= ROOM * (outlook.job.cpus - outlook.job.others) else 0


def _worker(loader: Loader, held: int | None, ranks: int) -> int:
    """Return the B that one more worker takes: as measured, else as much as a training process with all that it has.

    A forked worker begins with next to nothing of its own, and copies what it touches: all of it, in the end.
    """
    if loader.worker_memory:
        return loader.worker_memory
    return held // ranks // (1 + loader.num_workers) if held else UNKNOWN
