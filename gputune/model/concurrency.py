"""Ranks replayed together: each with its own loader and steps, joined where they meet.

What a rank stands at the meetings is no step of its own, and no work of its device: a kernel that waits for another
rank spins. So it is left out of its steps, and comes out of the replay again: who is done waits for the last one, and
all for the transfer.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from gputune.core.figures import TINY, mean
from gputune.features import Features, Loader, Process
from gputune.model.rank_team import team
from gputune.model.replay import LoopSeries, Work
from gputune.model.workload import for_others, job_of, rounds_per_batch

MOST_RANKS = 32  # that are replayed together: of more, those that wait most for batches, or are the slowest
PARTS = ("cpu", "blocked", "disk")


def together(run: Features, process: Process, loader: Loader) -> LoopSeries:
    """Return the work behind a loader's batches, and that of the ranks that it meets, if each has such a loader."""
    met = team(run)
    others = [rank for rank in met.ranks if (rank.rank, rank.pid) != (process.rank, process.pid)] if met else []
    mates = [(rank, its) for rank in others if (its := _its(rank, loader)) is not None]
    rounds = rounds_per_batch(process)
    if met is None or _its(process, loader) is None or not rounds or not len(mates) == len(others) < len(met.ranks):
        return job_of(run, process, loader)
    mine = _by_itself(run, process, job_of(run, process, loader))
    found = [_LATEST.of(run, rank, its) for rank, its in _chosen(mates)]
    return replace(
        mine,
        mates=tuple(found),
        exchange=met.communication * max(1.0, rounds),
        every=max(1, round(1 / rounds)),
        floor=max(job.floor for job in (mine, *found)),
    )


class _Latest:
    """The ranks' work in the run that was asked for last: each of them is a mate of all others."""

    def __init__(self) -> None:
        self._run: Features | None = None
        self._found: dict[int, tuple[Process, LoopSeries]] = {}

    def of(self, run: Features, process: Process, loader: Loader) -> LoopSeries:
        """Return the work behind the one loader of a rank."""
        if self._run is not run:
            self._run, self._found = run, {}
        if id(process) not in self._found:
            job = _by_itself(run, process, job_of(run, process, loader))
            self._found[id(process)] = process, job  # the process: ids are used again
        return self._found[id(process)][1]


_LATEST = _Latest()


def changed(before: LoopSeries, after: LoopSeries) -> LoopSeries:
    """Return a job with its mates changed as it was itself: ranks run the same line."""
    if after is before or after.mates is not before.mates:
        return after
    return replace(after, mates=tuple(_as(before, after, mate) for mate in before.mates))


def _its(rank: Process, loader: Loader) -> Loader | None:
    """Return the one loader of a rank that is built where this one is, and alone gives it its batches."""
    training = [other for other in rank.loaders if other.training and other.batches]
    if len(training) != 1 or training[0].where != loader.where or not training[0].fetches or not training[0].steps:
        return None
    return training[0]


def _chosen(mates: list[tuple[Process, Loader]]) -> list[tuple[Process, Loader]]:
    """Return as many of the others as can be replayed, those first that are likely the last to come."""
    return sorted(mates, key=lambda mate: -mean([m.own for m in mate[0].meetings]))[: MOST_RANKS - 1]


def _by_itself(run: Features, process: Process, job: LoopSeries) -> LoopSeries:
    """Return the work of a rank with the steps that it makes by itself: rounds without waits for batches and ranks.

    Of the CPU time that a step takes by all clocks, they have as much as they are long. Those of a device do not tell
    what they queue for a CPU: it is what the crowd of the replay makes of their CPU time, for there it is met again.
    """
    often = rounds_per_batch(process)
    each = [max(0.0, m.own - m.waited - m.queued) * often for m in process.meetings]
    cpu, width = mean([step.cpu for step in job.steps]), mean([step.width for step in job.steps])
    on_device = any(m.on_device for m in process.meetings)
    pace = Work(0.0, 0.0, width).pace(min(1.0, job.cpus / (width + job.others))) if on_device else 1.0
    share = min(pace, cpu / max(TINY, mean(each)))
    steps = tuple(Work(own * share, own * (1 - share / pace), width) for own in each)
    return replace(job, steps=steps, floor=job.floor - for_others(run, process))


def _as(before: LoopSeries, after: LoopSeries, mate: LoopSeries) -> LoopSeries:
    return replace(
        mate,
        fetches=_series(before.fetches, after.fetches, mate.fetches),
        steps=_series(before.steps, after.steps, mate.steps),
        picks=_series(before.picks, after.picks, mate.picks),
        pins=_series(before.pins, after.pins, mate.pins) if before.pins and after.pins else after.pins,
        taking=_moved(before.taking, after.taking, mate.taking),
        cpus=_moved(before.cpus, after.cpus, mate.cpus),
        others=_moved(before.others, after.others, mate.others),
        delivery=_moved(before.delivery, after.delivery, mate.delivery),
        late=_moved(before.late, after.late, mate.late),
    )


def _series(before: Sequence[Work], after: Sequence[Work], mate: Sequence[Work]) -> tuple[Work, ...]:
    if before is after or not before or not after:
        return tuple(mate)

    def part(name: str) -> Callable[[Work], float]:
        was, now = (mean([getattr(work, name) for work in series]) for series in (before, after))
        return lambda work: _moved(was, now, getattr(work, name))

    cpu, blocked, disk = map(part, PARTS)
    return tuple(replace(work, cpu=cpu(work), blocked=blocked(work), disk=disk(work)) for work in mate)


def _moved(was: float, now: float, mine: float) -> float:
    """Return a number changed as another one was: what is saved is a share of it, what is added is as much."""
    return mine * now / was if 0 <= now < was else mine + now - was
