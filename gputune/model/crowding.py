"""Teams of torch's own threads that have fewer CPUs than threads: what they lose, and how many each would best have.

All threads of a team compute a part of each operation, and the operation is over when the last of them is. Where one
has no CPU, the others wait for it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from gputune.core.figures import TINY, mean
from gputune.core.finding import MOST_TIMES, Speedup
from gputune.features import Features, Process
from gputune.model.minimum_samples import settled
from gputune.model.prediction import CANDIDATES, ERROR, GOOD_ENOUGH, Outlook, Setting
from gputune.model.replay import ALONE, LoopSeries, Work
from gputune.model.strangers import UNTANGLED
from gputune.model.workload import CROWD

ELSEWHERE = 2.0  # times: what teams that fit the CPUs brought elsewhere (x1.3 to x5)
WORTH = 1.1  # for how long a step takes fewer threads is not known
WAITING = 0.03  # of the loop that a training is runnable without a CPU: below it, nobody stands in its way


@dataclass(frozen=True, slots=True)
class Narrower:
    """A step of fewer threads, so that workers have CPUs of their own: how many of both, and what that buys."""

    workers: int
    threads: int
    gain: Speedup


@lru_cache(maxsize=8)  # three advisors ask the same
def narrower(outlook: Outlook, numbers: tuple[int, ...] = CANDIDATES) -> Narrower | None:
    """Return what fewer threads in the step buy, with one of these `numbers` of workers that fit the CPUs beside it.

    None where the step is no team's. How long a step takes fewer threads is not known, for some of the CPU time of many
    they only wait in for each other: at the most all of that time is work, at the least no more than one of them had.
    Likely is the geometric mean.
    """
    process, job, machine = outlook.process, outlook.job, outlook.run.machine
    threads, cpus = process.precision.threads or 1, math.floor(machine.cpus / machine.ranks)
    # With fewer than 2 threads, or 2 CPUs, nothing can be shared out
    if not process.on_host or min(threads, cpus) < 2 or mean(s.width for s in job.steps) <= ALONE:
        return None
    if job.others >= CROWD or outlook.loader.company.training > 1:  # the CPUs are shared with more than these
        return None
    most = max(min(cpus, outlook.most_workers()), outlook.now.workers)
    fitting = [workers for workers in numbers if cpus - threads < workers <= most]
    tried = {workers: max(1, min(threads - 1, cpus - workers)) for workers in fitting}
    if not tried:
        return None
    likely = {workers: _narrow(job, fewer, 0.5) for workers, fewer in tried.items()}
    lasts = {workers: outlook.altered(each).loop(_with(outlook, workers)) for workers, each in likely.items()}
    chosen = min(n for n, seconds in lasts.items() if seconds <= min(lasts.values()) * GOOD_ENOUGH)
    setting, fewer = _with(outlook, chosen), tried[chosen]
    found, least, best = (outlook.gain(setting, _narrow(job, fewer, part)) for part in (0.5, 1.0, 0.0))
    return Narrower(chosen, fewer, replace(found, high=max(found.high, best.likely)).down_to(least))


def for_more_workers(outlook: Outlook) -> Narrower | None:
    """Return what more workers and fewer threads buy; None where it is not surely more than the loop as it is."""
    found = narrower(outlook)
    return found if found and found.workers > outlook.now.workers and _is_sure(found) else None


def for_these_workers(outlook: Outlook) -> Narrower | None:
    """Return what fewer threads buy beside these workers; None where that is not sure, or more are wanted as well."""
    found = narrower(outlook, (outlook.now.workers,)) if outlook.now.workers else None
    return found if found and _is_sure(found) and for_more_workers(outlook) is None else None


def _is_sure(found: Narrower) -> bool:
    return found.gain.likely >= WORTH and found.gain.sure > 1


def _with(outlook: Outlook, workers: int) -> Setting:
    return replace(outlook.now, workers=workers)


def _narrow(job: LoopSeries, threads: int, part: float) -> LoopSeries:
    """Return the work with steps of so many threads; `part` says how much of their CPU time is work: 0 least, 1 all."""

    def fewer(step: Work) -> Work:
        times = max(1.0, step.width / threads)
        return replace(step, cpu=step.cpu * times**part, width=min(step.width, float(threads)))

    return replace(job, steps=tuple(map(fewer, job.steps)))


@dataclass(frozen=True, slots=True)
class Crowd:
    """Processes that compute on one host at the same time, with more threads together than the job has CPUs."""

    processes: tuple[Process, ...]
    threads: int  # of all of them
    fits: int  # threads of each, for which there are CPUs
    queued: float  # share of its time that the training was runnable without a CPU, as far as its own threads did it
    gain: Speedup


def crowd(run: Features) -> Crowd | None:
    """Return the crowd of a run; None where there is none, or where nobody was seen to wait for its own threads."""
    teams = _teams(run)
    threads = sum(process.precision.threads or 1 for process in teams)
    if not teams or threads <= math.ceil(run.machine.cpus):
        return None
    fits = max(1, math.floor(run.machine.cpus / len(teams)))
    queued = _queued(run, teams)
    if queued < WAITING or all((process.precision.threads or 1) <= fits for process in teams):
        return None
    return Crowd(teams, threads, fits, queued, _gain(teams, fits, queued, threads / run.machine.cpus))


def _teams(run: Features) -> tuple[Process, ...]:
    """Return the processes that compute on the host at once: no more than lived at once, those that trained longest."""
    heard = [p for p in run.processes if p.guest == "ring" and p.loop > 0 and p.cpu and settled(p)]
    found = [p for p in heard if p.on_host and p.precision.threads]
    if len(found) < len(heard) or len({process.host for process in found}) > 1:
        return ()  # what the others compute, or on which machine, is not known
    return tuple(sorted(found, key=lambda process: -process.loop)[: run.machine.ranks])


def _queued(run: Features, teams: Sequence[Process]) -> float:
    """Return the share of its time that a training was runnable without a CPU, on average, through no fault of others.

    Each second of a CPU that somebody else used (strangers, workers) held up one thread for a second at the most.
    """
    mean = sum(process.queued or 0.0 for process in teams) / len(teams)
    workers = max(0.0, (run.machine.job or 0.0) - sum(process.cpu or 0.0 for process in teams))
    return max(0.0, mean - ((run.machine.others or 0.0) + workers) / len(teams))


def _gain(teams: Sequence[Process], fits: int, queued: float, each_cpu: float) -> Speedup:
    """Return what teams that fit the CPUs buy at the least; how much more nobody knows.

    A team gets on at the pace of threads that wait for each other (`Work.pace`). Where such threads sleep instead of
    queueing, what that costs shows nowhere: only `UNTANGLED` of it is sure. More than as many times as there are
    threads for each CPU (`each_cpu`) is not promised: four teams of two on two CPUs did a fifth of what they could,
    where the pace alone says a seventh.
    """
    threads = sum(process.precision.threads or 1 for process in teams) / len(teams)
    each = sum(process.cpu or 0.0 for process in teams) / len(teams) / threads
    pace = Work(0.0, 0.0, threads).pace(each / max(TINY, each + queued))
    faster = fits / max(TINY, threads * pace)
    stepping = min(1.0, sum(p.ledger.get("step", 0.0) / p.loop for p in teams) / len(teams))
    least = (1 - 2 * ERROR) / (1 - stepping + stepping / max(1.0, faster))
    low = min(MOST_TIMES, max(UNTANGLED, min(least, each_cpu)))
    return Speedup(low=low, likely=max(low, ELSEWHERE), high=MOST_TIMES, at_least=True)
