"""What a setting must not use up: the CPUs that this job may use, /dev/shm, and memory; each shared by its ranks.

A line that builds several loaders gives its settings to all of them (`concurrent_loaders.py`), so those that live at
once share what is left as well: workers that persist are there for each of them, queues are full in those that are
iterated, and CPUs are shared by those that train side by side; the workers of others rest while an evaluation goes
on.
"""

from dataclasses import dataclass, replace

from gputune.core.figures import size
from gputune.experiment.living import ProcessMemory
from gputune.features import Loader
from gputune.features.concurrent_loaders import ALONE, Company
from gputune.model.headroom import left
from gputune.model.prediction import CANDIDATES, Outlook
from gputune.sweep.settings import LoaderSetting

USABLE_SHARE = 0.8  # of what is left: trainings grow, and batches vary in size
TRIFLE = 0.01  # of the memory and of /dev/shm that is left: a queue that takes no more costs nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What is left for settings other than the script's own. B of memory and batches of queues are of one rank."""

    workers: int  # of one loader
    batches: float  # that find room in /dev/shm
    memory: float | None  # B left to this rank beside what it takes now; None: not known
    worker: int  # B that one worker more takes
    own: int = 0  # B that nobody shares with a worker: what one less leaves, and one more takes at first; 0: not known
    batch: int | None  # B of one batch in /dev/shm, 0 where none lies there; None: not known, and nothing is said of it
    script: LoaderSetting
    shared: bool = True  # a stream that does not share itself out gets no second worker
    company: Company = ALONE
    running: int = 1  # loaders of the line that had workers as memory was looked at

    def refuses(self, wanted: LoaderSetting) -> str:
        """Return what a setting would use up, in words; nothing where it fits."""
        if wanted.num_workers > max(1, self.script.num_workers) and not self.shared:
            return "its dataset is a stream: each worker would return all of it"
        if wanted.num_workers > self.workers:
            return f"the CPUs of this job have work for {self.workers} workers at most{_among(self.company.training)}"
        queued = self._queued(wanted)
        if wanted.num_workers and queued > self.batches:
            loaders = _among(self.company.iterated)
            return f"{queued} batches of {size(self.batch or 0)} do not fit into /dev/shm{loaders}"
        more = self.more(wanted)
        if self.memory is not None and more > self.memory:
            how = _among(self.loaders(wanted)) + self._before(wanted)
            return f"it would take {size(more)} more memory{how}, and {size(self.memory)} may be used"
        return ""

    def beside(self, company: Company) -> "Limits":
        """Return the limits where more loaders of the line were seen to live at once."""
        return replace(self, company=self.company.merged(company))

    def loaders(self, wanted: LoaderSetting) -> int:
        """Return how many loaders of the line have workers at once under a setting."""
        return self.company.built if wanted.persistent_workers else self.company.iterated

    def more(self, wanted: LoaderSetting) -> int:
        """Return the B of memory that workers and queues of a setting take beyond the script's, in one rank.

        In all loaders at once. Fewer workers leave what was theirs alone; a queue of batches of unknown size counts
        nothing.
        """
        return self.of_workers(wanted) + self._of_queues(wanted)

    def of_workers(self, wanted: LoaderSetting) -> int:
        """Return the B of these that are the workers', once those that come share nothing any more."""
        workers = self._workers(wanted)
        return workers * (self.worker if workers > 0 else self.own)

    def at_first(self, wanted: LoaderSetting) -> int:
        """Return the B of these that are the workers' while forked ones share what they have not touched.

        At most so much, where one worker was looked at: what it had for itself as the training alone had written it,
        others share.
        """
        return self._workers(wanted) * (self.own or self.worker)

    def _workers(self, wanted: LoaderSetting) -> int:
        """Return how many workers a setting has more than the script, in one rank, in all loaders at once."""
        return self.loaders(wanted) * wanted.num_workers - self.running * self.script.num_workers

    def _of_queues(self, wanted: LoaderSetting) -> int:
        return (self._queued(wanted) - self.running * _at_once(self.script)) * (self.batch or 0)

    def _before(self, wanted: LoaderSetting) -> str:
        """Return in words what it takes before all is touched, where that is less."""
        first = max(0, self.at_first(wanted) + self._of_queues(wanted))
        return f" in the end ({size(first)} at first)" if first < self.more(wanted) else ""

    def trifling(self, wanted: LoaderSetting) -> bool:
        """Return whether full queues of a setting are known to take next to nothing of what is left."""
        if not self.batch or self.memory is None:
            return False
        queued = self._queued(wanted)
        return queued * self.batch <= TRIFLE * self.memory and queued <= TRIFLE * self.batches

    def shm(self, wanted: LoaderSetting) -> int | None:
        """Return the B of /dev/shm that full queues of a setting take, in one rank, in all loaders at once.

        None where it is not known how large a batch is.
        """
        return None if self.batch is None else self._queued(wanted) * self.batch

    def _queued(self, wanted: LoaderSetting) -> int:
        """Return how many batches lie in /dev/shm, in one rank, in all loaders at once."""
        return self.company.iterated * _at_once(wanted)


def _at_once(wanted: LoaderSetting) -> int:
    """Return how many batches of a loader there are at once: a full queue, and the one that the loop is at."""
    return wanted.queue + 1 if wanted.num_workers else 0


def _among(loaders: int) -> str:
    return f" with {loaders} loaders at once" if loaders > 1 else ""


def limits(
    outlook: Outlook,
    script: LoaderSetting,
    held: int | None,
    company: Company = ALONE,
    each: ProcessMemory | None = None,
) -> Limits:
    """Return the limits as the profile shows them.

    `held`: B of memory that the training's processes held in it, and `each` of its workers.
    """
    machine, loader = outlook.run.machine, outlook.loader
    found, beside = left(machine), company.training
    # One worker more than the CPUs can keep running may be tried: it fills the gaps of the others
    workers = (outlook.fitting_workers() + 1 + _idle(outlook, beside)) // beside
    batch = _batch(outlook)
    smaller = min(1.0, loader.batch_bytes / batch) if loader.batch_bytes and batch else 1.0
    return Limits(
        workers=max(1, min(CANDIDATES[-1], workers)),
        batches=outlook.queued_batches() * smaller,
        memory=None if found is None else USABLE_SHARE * found[1] / machine.ranks,
        worker=_worker(loader, each.held if each else 0, held, machine.ranks),
        own=each.own if each else 0,
        batch=batch,
        script=script,
        shared=not loader.iterable or bool(loader.shards),
        company=company,
        running=beside,
    )


def _batch(outlook: Outlook) -> int | None:
    """Return the B of the largest batch that the line's loaders have made, in /dev/shm; 0 where it is not there.

    None where none of them was measured, for it has no parts that are known.
    """
    where = outlook.loader.where
    mine = [x for x in outlook.process.loaders if x.where == where and x.batch_bytes_most]
    return max(((x.batch_bytes_most or 0) if x.batch_shared else 0 for x in mine), default=None)


def _idle(outlook: Outlook, beside: int) -> int:
    """Return how many workers more than the CPUs can keep running do no harm: one a CPU, or none.

    CPUs are used up by batches, not by the number of those who make them. Where the steps set the pace and leave CPUs
    idle, more workers run no more often; but one that rests hands over its batch at once, and one that makes the next
    batch does not before Python lets its other thread run.
    """
    used = (beside * outlook.making_cpu + outlook.step_cpu) / max(1e-9, outlook.stepping)  # cores
    return round(outlook.job.cpus) if used <= USABLE_SHARE * (outlook.job.cpus - outlook.job.others) else 0


def _worker(loader: Loader, each: int, held: int | None, ranks: int) -> int:
    """Return the B that one more worker takes: as measured, else as much as a training process with all that it has.

    `each`: as it was when `held` was; the run's own reading may be of workers that were still importing.
    A forked worker begins with next to nothing of its own, and copies what it touches: all of it, in the end.
    """
    seen = max(each, loader.worker_memory or 0)
    if seen:
        return seen
    # 512 << 20 B that a worker is believed to need where nothing was measured: an interpreter with torch
    return held // ranks // (1 + loader.num_workers) if held else 512 << 20
