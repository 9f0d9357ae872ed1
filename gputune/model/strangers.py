"""What it costs that CPUs are shared: with strangers, or with more threads of one's own than there are CPUs."""

from dataclasses import replace

from gputune.core.figures import TINY
from gputune.core.finding import ERROR, MOST_TIMES, Speedup, interval
from gputune.model.prediction import Outlook, Setting, within
from gputune.model.workload import entangled, step_queued_of

MOST_HELD = 0.9  # of a loop held up by others: beyond it, the clocks and not the crowd are to be doubted
UNTANGLED = 1.1  # times: what is sure to be won where threads that wait for each other have no CPU, even if they sleep


def alone(outlook: Outlook) -> Speedup:
    """Return what it would buy to have the CPUs to oneself.

    Threads of one step that wait for each other are late by the last of them, and some burn CPU meanwhile: where a step
    has several, it may be more by that factor.
    """
    found = outlook.gain(outlook.now, replace(outlook.job, others=0.0))
    width = max((step.width for step in outlook.job.steps), default=1.0)
    return within(replace(found, high=found.high * width), 1 / (1 - min(MOST_HELD, _held_by_others(outlook))))


def _held_by_others(outlook: Outlook) -> float:
    """Return the share of the loop for which others can have held it up at the most.

    Each second of a CPU that they used held up one of our threads for a second, if it wanted that very CPU; and what
    was held up queued for a CPU, or waited for a batch whose maker did.
    """
    queued = step_queued_of(outlook.loader) / outlook.per_batch if outlook.per_batch else 0.0
    return min(outlook.run.machine.others or 0.0, queued + outlook.waiting)


def relieved(outlook: Outlook, setting: Setting) -> Speedup:
    """Return what `setting` would buy if all that the model cannot explain now is the crowd on the CPUs.

    Threads of one worker that wait for each other burn CPU meanwhile. What a batch costs without that shows at best in
    the quietest batch of the run, which was made when others stood still. How much they burn nobody knows (x5 to x65
    was seen), so only the lower end is sure.
    """
    loader, rest = outlook.loader, outlook.between
    crowded = outlook.whole / max(TINY, outlook.loop(setting) + rest)
    if not entangled(outlook.run, loader):
        return interval(max(1.0, crowded), 3 * ERROR)
    cpus = [f.cpu / max(1, f.samples) for f in loader.fetches]
    quiet = min(cpus) * len(cpus) / max(TINY, sum(cpus))
    job = replace(outlook.job, fetches=tuple(replace(f, cpu=f.cpu * quiet) for f in outlook.job.fetches))
    likely = min(
        MOST_TIMES, max(UNTANGLED, crowded, outlook.whole / max(TINY, outlook.altered(job).loop(setting) + rest))
    )
    return Speedup(low=max(UNTANGLED, min(crowded, likely)), likely=likely, high=MOST_TIMES, at_least=True)
