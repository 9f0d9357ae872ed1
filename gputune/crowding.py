"""Teams of torch's own threads that have fewer CPUs than threads: what they lose, and how many each would best have.

All threads of a team compute a part of each operation, and the operation is over when the last of them is. Where one
has no CPU, the others wait for it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gputune.enough import settled
from gputune.features import Features, Process
from gputune.figures import TINY
from gputune.finding import MOST, Speedup
from gputune.prediction import ERROR, UNTANGLED
from gputune.replay import Work

ELSEWHERE = 2.0  # times: what teams that fit the CPUs brought elsewhere (x1.3 to x5)
WAITING = 0.03  # of the loop that a training is runnable without a CPU: below it, nobody stands in its way


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
    return Crowd(teams, threads, fits, queued, _gain(teams, fits, queued))


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


def _gain(teams: Sequence[Process], fits: int, queued: float) -> Speedup:
    """Return what teams that fit the CPUs buy at the least; how much more nobody knows.

    A team gets on at the pace of threads that wait for each other (`Work.pace`). Where such threads sleep instead of
    queueing, what that costs shows nowhere: only `UNTANGLED` of it is sure.
    """
    threads = sum(process.precision.threads or 1 for process in teams) / len(teams)
    each = sum(process.cpu or 0.0 for process in teams) / len(teams) / threads
    pace = Work(0.0, 0.0, threads).pace(each / max(TINY, each + queued))
    faster = fits / max(TINY, threads * pace)
    stepping = min(1.0, sum(p.ledger.get("step", 0.0) / p.loop for p in teams) / len(teams))
    least = (1 - 2 * ERROR) / (1 - stepping + stepping / max(1.0, faster))
    low = min(MOST, max(UNTANGLED, least))
    return Speedup(low=low, likely=max(low, ELSEWHERE), high=MOST, at_least=True)
