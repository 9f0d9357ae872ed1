"""Ranks that wait for each other: how long a round takes them together, and what it would take if some were faster.

A round is over when the last rank has come and the transfer is done: the longest `own` of the ranks, and the shortest
`apart`, which is communication alone, for the last one to come waits for nobody.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import stdev

from gputune.core.figures import TINY, mean
from gputune.core.finding import ERROR, Speedup, interval
from gputune.features import Features, Process, SyncRound

LEAST_ROUNDS = 20  # that all ranks have told: below it a mean says nothing
ROUNDS = 512  # the latest that are looked at
STRETCH = 5  # rounds at the least that are looked at together, for rounds in a row are alike
SURE = {4: 2.4, 5: 2.2, 6: 2.0, 7: 1.95, 8: 1.9}  # stretches, and standard errors of their mean that hold 9 of 10

Round = Sequence[float]  # the own s of each rank in one round


@dataclass(frozen=True, slots=True)
class Team:
    """All ranks of one job, in their order, and the rounds that all of them have told."""

    ranks: tuple[Process, ...]
    rounds: tuple[tuple[SyncRound, ...], ...]  # a round's meetings, in the order of the ranks

    @property
    def communication(self) -> float:
        """Return the mean s of a round that communication holds all ranks up."""
        return mean([min(m.apart for m in met) for met in self.rounds])

    @property
    def undisturbed(self) -> float:
        """Return the s of a round that communication takes while nobody comes between: in the quickest quarter of them.

        Each message has threads to wake on every rank. Where strangers use the CPUs they queue for one now and then,
        and for longer than a small message takes.
        """
        quickest = sorted(min(m.apart for m in met) for met in self.rounds)
        return quickest[len(quickest) // 4]

    @property
    def working(self) -> float:
        """Return the mean s of a round until the last rank has come."""
        return mean([max(m.own for m in met) for met in self.rounds])

    @property
    def seconds(self) -> float:
        """Return the mean s of a round."""
        return self.working + self.communication

    def own(self, member: int) -> float:
        """Return the mean s that one rank takes of a round by itself."""
        return mean([met[member].own for met in self.rounds])

    def mean(self, what: Callable[[SyncRound], float]) -> float:
        """Return the mean of something over all rounds and ranks."""
        return mean([what(m) for met in self.rounds for m in met])

    @property
    def together(self) -> float:
        """Return the share of the job's loop in which all ranks are at it: who has fewer batches is done earlier."""
        loops = [rank.loop for rank in self.ranks]
        return min(loops) / max(loops) if max(loops) else 1.0

    @property
    def crowded(self) -> float:
        """Return the share of its own time for which a rank would queue for a CPU if nothing was exchanged.

        As in forward passes, in which nothing is; where these were not timed, all that it queues counts.
        """
        own = self.mean(lambda m: m.own)
        share = min(1.0, self.mean(lambda m: m.queued) / own) if own else 0.0
        known = [m.calm_queued for met in self.rounds for m in met if m.calm_queued is not None]
        return min(share, mean(known)) if known else share

    @property
    def displaced(self) -> float:
        """Return the s of a round that a rank queues for a CPU because the exchange, beside its work, has it."""
        own, queued = self.mean(lambda m: m.own), self.mean(lambda m: m.queued)
        return max(0.0, queued - self.crowded * own) / max(TINY, 1 - self.crowded)

    def last(self, members: Collection[int]) -> float:
        """Return the share of rounds in which one of these comes last."""
        came = [max(range(len(met)), key=lambda r: met[r].own) for met in self.rounds]
        return sum(member in members for member in came) / len(came)

    @property
    def owns(self) -> list[Round]:
        """Return the own s of each rank, for each of the rounds."""
        return [[m.own for m in met] for met in self.rounds]

    @property
    def fed(self) -> list[Round]:
        """Return the same without what they waited for batches."""
        return [[m.own - m.waited for m in met] for met in self.rounds]

    @property
    def timed(self) -> bool:
        """Return whether what was waited for batches is known round by round."""
        return any(m.waited for met in self.rounds for m in met)

    def gain(
        self,
        works: Sequence[float],
        communication: float | None = None,
        *,
        passing: bool = False,
        beyond: float = 1.0,
    ) -> Speedup:
        """Return what it buys if each of the rounds works for so many s, and communicates as long as told.

        Where a rank is done earlier than others, these are the rounds until then: what follows is `beyond` times as
        fast as it was.
        The interval is what the ratio varies by over stretches of the run, and the model's own error. What is slow for
        some seconds and then is not, as a CPU whose core a stranger shares, is not a property of a rank. With `passing`
        it may be so for as long as the run was watched, by as much as stretches differ: more of them then say no more.
        """
        rest = self.communication if communication is None else communication
        now = [max(m.own for m in met) + self.communication for met in self.rounds]
        after = [working + rest for working in works]
        ratio = mean(now) / max(TINY, mean(after))
        residuals = [n - ratio * a for n, a in zip(now, after, strict=True)]
        unsure = _unsure(residuals, passing=passing) / max(TINY, mean(now))
        left = self.together / max(TINY, ratio)
        whole = 1 / max(TINY, (1 - self.together) / max(TINY, beyond) + left)
        return interval(whole, ERROR + unsure * left * whole)


def _unsure(series: Sequence[float], *, passing: bool) -> float:
    """Return by how much the mean of a series of alike neighbours may be wrong: from the means of stretches of it.

    With `passing` all of it may be one stretch of something longer.
    """
    count = max(min(SURE), min(max(SURE), len(series) // STRETCH))
    ends = [len(series) * number // count for number in range(count + 1)]
    means = [mean(series[start:end]) for start, end in pairwise(ends)]
    return SURE[count] * stdev(means) / (1 if passing else math.sqrt(count))


def team(run: Features) -> Team | None:
    """Return the ranks of a run that meet each other; None unless every rank of the job was heard.

    What a rank that is not seen waits for, and who waits for it, cannot be told from the others.
    """
    return _LATEST.of(run)


class _Latest:
    """The team of the run that was asked for last: all advisors look at one run, and most ask for it."""

    def __init__(self) -> None:
        self._run: Features | None = None
        self._found: Team | None = None

    def of(self, run: Features) -> Team | None:
        if self._run is not run:
            self._run, self._found = run, _team(run)
        return self._found


_LATEST = _Latest()


def _team(run: Features) -> Team | None:
    ranks = tuple(p for p in run.processes if p.guest == "ring" and p.meetings)
    size = max((m.ranks for p in ranks for m in p.meetings[-1:]), default=0)
    if size < 2 or len(ranks) != size:
        return None
    told = [{m.number: m for m in p.meetings} for p in ranks]
    shared = sorted(set.intersection(*map(set, told)))[-ROUNDS:]
    if len(shared) < LEAST_ROUNDS:
        return None
    return Team(ranks, tuple(tuple(meetings[number] for meetings in told) for number in shared))


def ceiling(run: Features, spans: Collection[str]) -> float:
    """Return the speed-up of a job of ranks if none of them spent anything on these spans; endless without such a job.

    Who is not the last to come gains nothing by coming earlier.
    """
    ranks = team(run)
    if ranks is None:
        return float("inf")
    timed = ranks.timed
    rest = [span for span in spans if not (timed and span == "loader.wait")]
    spared = [share(process, rest) * ranks.seconds for process in ranks.ranks]
    return ranks.gain(_less(ranks.fed if timed else ranks.owns, spared)).likely


def without(ranks: Team, spared: Sequence[float]) -> list[float]:
    """Return the s that each of the rounds works if each rank has so many s less to do, and varies as it did."""
    return _less(ranks.owns, spared)


def _less(owns: Sequence[Round], spared: Sequence[float]) -> list[float]:
    return [max(max(0.0, o - s) for o, s in zip(own, spared, strict=True)) for own in owns]


def starved(run: Features) -> float | None:
    """Return the share of the rounds of a job of ranks that goes with waiting for a batch of one of them.

    None where there is no such job, or nobody timed these waits. Who waits for a batch while others are later keeps
    nobody waiting.
    """
    ranks = team(run)
    if ranks is None or not ranks.timed:
        return None
    return max(0.0, 1 - (mean(list(map(max, ranks.fed))) + ranks.communication) / max(TINY, ranks.seconds))


def share(process: Process, spans: Collection[str]) -> float:
    """Return the share of a rank's loop that it spends on these spans."""
    return sum(process.in_loop.get(span, 0.0) for span in spans) / process.loop if process.loop else 0.0


def job(run: Features) -> tuple[Process, ...]:
    """Return the training processes of one job of several ranks, all of them; () where there is no such job."""
    ranks = tuple(p for p in run.processes if p.guest == "ring" and p.loop > 0 and p.rank is not None)
    size = max((p.world_size or 0 for p in ranks), default=0)
    whole = size >= 2 and len(ranks) == size and len({p.rank for p in ranks}) == size
    return ranks if whole else ()


def named(ranks: Sequence[Process]) -> str:
    """Return ranks in words: `rank 3`, `ranks 1 and 5`, `ranks 0, 1, 2 and 5 more`."""
    numbers = [str(p.rank if p.rank is not None else p.pid) for p in ranks]
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if len(numbers) > 4:
        return f"ranks {', '.join(numbers[:3])} and {len(numbers) - 3} more"
    return f"ranks {', '.join(numbers[:-1])} and {numbers[-1]}"
