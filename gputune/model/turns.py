"""Whether the workers of a loader make batches side by side: what holding them up did, beside the replay.

The replay takes each worker's waiting for its own. Where all of them wait for each other, at a lock of files, a server
or a disk, more of them would bring nothing, and no clock of theirs tells that. Held up for a moment, it shows: what
the others do meanwhile makes up for it.
"""

from dataclasses import replace

from gputune.core.figures import TINY
from gputune.core.finding import ERROR, Speedup
from gputune.features import Slope
from gputune.model.company import WaitGrowth, company
from gputune.model.prediction import Outlook

LEAST = 3  # times that the workers were held up: fewer say nothing
FAR = 0.5  # of what the replay has: a pace that depends on the workers by less is not set by them one by one
GROUPS = 4  # of workers that are held up one after the other, as the guest has it
SELDOM = 8  # batches of each worker, one of which is late in the replay
SHORT = 0.9  # of the CPUs that the job may use: with more in use they are what is waited for
SETS = 0.7  # of a delay by which the replay has the batches come later, where workers set the pace


def expected(outlook: Outlook, delay: float) -> float:
    """Return the slope that the replay has for workers that are held up `delay` s now and then, as they are."""
    workers, fetches = max(1, outlook.now.workers), outlook.job.fetches
    moments = [number // workers % SELDOM == number % workers % GROUPS for number in range(len(fetches))]
    held = tuple(replace(work, blocked=work.blocked + delay * now) for work, now in zip(fetches, moments, strict=True))
    then = outlook.altered(replace(outlook.job, fetches=held)).loop(outlook.now)
    delayed = delay * outlook.batches / workers * sum(moments) / max(1, len(moments))
    return (then - outlook.loop(outlook.now)) / max(TINY, delayed)


def in_turn(outlook: Outlook) -> Slope | None:
    """Return what holding the workers up did, where that shows that they make batches in turn; else None."""
    slope = outlook.loader.slope
    if slope is None or slope.count < LEAST or outlook.now.workers < 2 or outlook.run.machine.ranks > 1:
        return None  # ranks wait for each other: what one is late by they make up for, or not
    usual = expected(outlook, slope.delay)
    return slope if usual >= SETS and slope.most < FAR * usual else None


def in_company(outlook: Outlook) -> WaitGrowth | None:
    """Return how the waiting of workers grows with their number, where most of making a batch surely does; else None.

    Nothing where what they share is known: a disk at its limit or a lock of multiprocessing, which the replay has, or
    the CPUs of the job: a control group that has used up its time stands still, and that looks like waiting.
    """
    found = company(outlook)
    known = any(work.disk for work in outlook.job.fetches) or outlook.burnt > SHORT * outlook.per_batch
    sure = found is not None and found.least * found.usual >= FAR * outlook.making
    return found if sure and not known else None


def unless_in_line(outlook: Outlook, found: Speedup) -> Speedup:
    """Return what more workers bring, at the least where all of them stand in line for what only one has at a time.

    As far as that may be so: the line gives no more batches in a second, whatever their number, and nothing is lost.
    Not where they were seen to set the pace each by itself, and of one worker nobody can see anything.
    """
    shared, slope = company(outlook), outlook.loader.slope
    if shared is None or (slope is not None and slope.count >= LEAST and slope.least >= FAR):
        return found
    each = shared.most * shared.usual / max(1.0, shared.number)
    least = max(1.0, outlook.whole / max(TINY, outlook.between + each * outlook.batches) / (1 + ERROR))
    return replace(found, low=min(found.low, least), steady=min(found.sure, least))


def side_by_side(outlook: Outlook, left: float = 0.0) -> Speedup:
    """Return what it would buy if none of the workers waited for another one; at the least half of that waiting goes.

    As each of them is always waiting but one, what one does by itself is its part of the time that all of them take, or
    the part of it that is `left` where that was seen; the former then at the most.
    """
    part = 1 / max(1, outlook.now.workers)
    alone = max(left, part)

    def gain(left: float) -> Speedup:
        apart = tuple(replace(work, blocked=work.blocked * left) for work in outlook.job.fetches)
        return outlook.gain(outlook.now, replace(outlook.job, fetches=apart))

    found = gain(alone).down_to(gain((1 + alone) / 2))
    return replace(found, high=max(found.high, gain(part).high))
