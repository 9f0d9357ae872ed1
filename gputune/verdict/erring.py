"""What ended a command that failed: the error that a process of it told last, and host memory that had run out."""

from gputune.features import Features, Raised
from gputune.model.headroom import KILLED, NOTABLE, killed
from gputune.verdict.document import ErrorRow, GrowthRow, alike

LAUNCHERS = ("ChildFailedError",)  # told by a launcher of one of its processes, which has told it itself
# what Python, NumPy and torch's allocator of host memory say where the kernel gives them none
MEMORY = ("MemoryError", "_ArrayMemoryError", "DefaultCPUAllocator", "Cannot allocate memory")


def error(run: Features) -> ErrorRow | None:
    """Return the error that ended a command which failed, None where none was told, or it did not fail.

    Of processes that lived at the same time the first one to end is the cause, and the others' are what came of it; of
    those one after the other it is the last one.
    """
    own = [each for each in run.raised if not each.what.startswith(LAUNCHERS)]
    if not own and not any(each.ended for each in run.failures):  # those are told by themselves
        own = list(run.raised)
    if not run.exit_code or not own:
        return None
    last = max(each.started for each in own)
    found = min((each for each in own if _end(each) >= last), key=_end)
    more = sum(each is not found and _end(each) >= last for each in own)
    return alike(ErrorRow, found, others=more)


def growth(run: Features) -> GrowthRow | None:
    """Return what had grown where a command ended because the host's memory ran out, as far as that is sure.

    Of one that was killed, by nobody knows whom, what grew while it trained: what it loads before that is no reason.
    """
    ended = error(run)
    out = killed(run) or (ended is not None and any(word in ended.what for word in MEMORY))
    if not out and run.exit_code != KILLED:
        return None
    own = [(process.rising if out else process.memory, "training", process.pid) for process in run.processes]
    workers = [(x.worker_growth, "worker", p.pid) for p in run.processes for x in p.loaders if x.num_workers]
    sure = [(t, who, pid) for t, who, pid in own + workers if t is not None and t.low * t.seconds >= NOTABLE]
    if not sure:
        return None
    trend, who, pid = max(sure, key=lambda each: each[0].last - each[0].first)
    return GrowthRow(pid=pid, of=who, first_bytes=trend.first, last_bytes=trend.last, seconds=trend.seconds)


def _end(raised: Raised) -> int:
    return raised.ended or 1 << 63  # ns: when a process ends that lives
