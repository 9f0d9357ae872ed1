"""One rank is late at most steps, and all others wait for it.

What it sees: for every rank, what a step takes it by itself (its own time) and what it stands at the reduction with the
others: from the clocks of DistributedDataParallel, or around the calls of `torch.distributed`. And what the late ranks
spend more time on than the others: input (`next()` of their loaders), their device, or computing.

Why it matters: every step ends when the slowest rank has come. Seven devices then wait for the eighth.

What to do: input: give that rank the data path of the others (its disk, its share of a file system, its CPUs).
Device: look at its clocks, its temperature and who else works on it; where its clock is that of the others, for kernels
that only this rank launches. Computing: look for what only that rank does, or for more work in its samples.

When it is wrong: where ranks are meant to differ (pipeline stages, a parameter server). Not told here are lateness that
alternates, which is jitter, and a rank that only queues longer for a CPU: there the machine is crowded. One that is
late because it saves, prints or evaluates for the others is told by `frequent-checkpoint` and its siblings; one that
gets more samples, by `uneven-shards`. Loaders that are late in turns are told by `few-workers` and its siblings, for
which all ranks are replayed together (docs/ranks.md).

Sources: Jiang et al., "MegaScale", NSDI 2024, section 5 (stragglers in large jobs); Karakus et al., "Straggler
mitigation in distributed optimization", 2017.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from gputune.core.events import STOPPING
from gputune.core.figures import mean
from gputune.core.finding import Finding, Speedup
from gputune.features import Features, Process
from gputune.model.prediction import ERROR
from gputune.model.rank_hosts import least_round
from gputune.model.rank_team import LEAST_ROUNDS, Team, named, team

OFTEN = 0.6  # of the rounds: somebody is last in each; a straggler is last in most
SELDOM = 0.25  # of the rounds: in a quarter of them each of four ranks is late that are so in turns
EXPLAINED = 0.5  # of the lateness: from there on one cause is the cause
SLOWER = 0.95  # of the others' clock: below it a device is slower by more than its ordinary play
FULL = 0.99  # of the CPUs: a line at more than that has no end
SLIGHT = 0.05  # of a CPU: who queues though the line is shorter does so for another reason, like being bound to a CPU
HALVINGS = 20  # of a round: to a millionth of it

DO = {
    "input": "give it the data path of the others: its disk or share, its files, its CPUs and workers",
    "device": "look at that device's clocks, temperature and other users (`nvidia-smi -q -d PERFORMANCE`)",
    "computing": "look for what only this rank does, or for longer samples in its share",
}
KERNELS = "look for what only this rank has its device do, or who else uses it: its clock is that of the others"


@dataclass(frozen=True, slots=True)
class _Late:
    """The late ranks of a team, by their place in it, the others, and by how many s a round."""

    members: tuple[int, ...]
    others: tuple[int, ...]
    by: float


def advise(run: Features) -> Iterator[Finding]:
    ranks = team(run)
    late = _late(ranks) if ranks else None
    if ranks is None or late is None:
        return
    parts = _parts(run, ranks, late)
    why = max(DO, key=lambda name: parts[name])
    elsewhere = max(parts["pauses"], parts["samples"], parts["queueing"])
    if elsewhere >= max(EXPLAINED * late.by, parts[why]):
        return
    yield _finding(run, ranks, late, why, parts)


def _late(ranks: Team) -> _Late | None:
    """Return who is late: those above the widest gap between own times, at most half of the ranks."""
    own = [ranks.own(member) for member in range(len(ranks.ranks))]
    order = sorted(range(len(own)), key=own.__getitem__)
    places = range((len(order) + 1) // 2, len(order))
    place = max(places, key=lambda i: own[order[i]] - own[order[i - 1]])
    members, others = tuple(sorted(order[place:])), tuple(order[:place])
    late = _Late(members, others, mean([own[m] for m in members]) - mean([own[m] for m in others]))
    return late if ranks.last(members) >= OFTEN and _steadily(ranks, late) else None


def _steadily(ranks: Team, late: _Late) -> bool:
    """Return whether each of the late ranks is late in many rounds, and not by much in a few: that is jitter."""
    usual = [mean([own[m] for m in late.others]) + late.by / 2 for own in ranks.owns]
    times = [sum(own[m] > most for own, most in zip(ranks.owns, usual, strict=True)) for m in late.members]
    return min(times) >= SELDOM * len(usual)


def _parts(run: Features, ranks: Team, late: _Late) -> dict[str, float]:
    """Return what the late ranks take longer for, in s a round."""

    def more(seconds: Callable[[Process], float]) -> float:
        each = [seconds(process) for process in ranks.ranks]
        return mean([each[m] for m in late.members]) - mean([each[m] for m in late.others])

    def spent(process: Process, spans: Sequence[str]) -> float:
        share = sum(process.in_loop.get(span, 0.0) for span in spans) / process.loop if process.loop else 0.0
        return share * ranks.seconds

    parts = {
        "input": more(lambda p: spent(p, ("loader.wait", "loader.start"))),
        "pauses": more(lambda p: spent(p, STOPPING)),
        "samples": _by_samples(ranks, late),
        "queueing": _queueing(ranks, late),
    }
    elsewhere = sum(max(0.0, parts[name]) for name in ("pauses", "samples", "queueing"))
    timed = all(p.works for p in ranks.ranks)
    parts["device"] = _on_device(run, ranks, late, elsewhere) if timed else _slower(run, ranks, late)
    parts["computing"] = max(0.0, late.by - sum(max(0.0, part) for part in parts.values()))
    return parts


def _on_device(run: Features, ranks: Team, late: _Late, elsewhere: float) -> float:
    """Return the s a round that the late ranks' devices work longer, on their own clocks.

    These run on while the kernel waits that meets the other ranks, which is `apart`; in what is told of the host
    (`elsewhere`, in s a round); and wherever else a device idles in its step: by so much it is less busy than one that
    waits for it.
    """
    aparts = [mean([met[m].apart for met in ranks.rounds]) for m in range(len(ranks.ranks))]
    each = [max(0.0, mean(p.works) - apart) for p, apart in zip(ranks.ranks, aparts, strict=True)]
    longer = mean([each[m] for m in late.members]) - mean([each[m] for m in late.others])
    busy = [device.busy for device in run.devices if device.busy is not None]
    idle = (max(busy) - min(busy)) * ranks.seconds if busy else 0.0
    return max(0.0, min(late.by, longer) - elsewhere - idle)


def _slower(run: Features, ranks: Team, late: _Late) -> float:
    """Return the s a round that slower clocks of their devices explain of the late ranks, where each rank has one.

    Which device is whose is not known: CUDA_VISIBLE_DEVICES may name them in any order. So as many have to be slow as
    ranks are late.
    """
    clocks = sorted(device.clock for device in run.devices if device.clock)
    if not len(clocks) == len(run.devices) == len(ranks.ranks):
        return 0.0
    count = len(late.members)
    usual = mean(clocks[count:])
    if clocks[count - 1] >= SLOWER * usual or clocks[count] < SLOWER * usual:
        return 0.0
    own = mean([ranks.own(m) for m in late.members])
    return min(late.by, own * (1 - mean(clocks[:count]) / usual))


def _as_fast(run: Features, ranks: Team) -> bool:
    """Return whether the device of each rank is known, and none has a slower clock than another."""
    clocks = [device.clock for device in run.devices if device.clock]
    return len(clocks) == len(run.devices) == len(ranks.ranks) and min(clocks) >= SLOWER * max(clocks)


def _by_samples(ranks: Team, late: _Late) -> float:
    """Return the s a round that more samples in the late ranks' batches explain."""
    each = [p.samples / p.batches if p.batches else 0.0 for p in ranks.ranks]
    if not all(each):
        return 0.0
    usual = mean([each[m] for m in late.others])
    own = mean([ranks.own(m) for m in late.others])
    return max(0.0, own * (mean([each[m] for m in late.members]) / usual - 1))


def _queueing(ranks: Team, late: _Late) -> float:
    """Return the s a round that the late ranks queue longer for a CPU: the machine is crowded."""
    each = [mean([met[m].queued for met in ranks.rounds]) for m in range(len(ranks.ranks))]
    return mean([each[m] for m in late.members]) - mean([each[m] for m in late.others])


def _around(ranks: Team, late: _Late) -> float:
    """Return the s a round that the late ranks compute longer before the forward pass and behind the step."""
    each = [mean(p.before_forward) + mean(p.after_step) for p in ranks.ranks]
    return mean([each[m] for m in late.members]) - mean([each[m] for m in late.others])


def _slowed(run: Features, ranks: Team, late: _Late) -> float:
    """Return the s a round that a slower CPU explains of the late ranks: it is as much slower in the backward passes.

    All of it where these were not timed on each rank, and where a device does what they ask for.
    """
    timed = [met for met in ranks.rounds if all(m.backward for m in met)]
    if run.devices or len(timed) < LEAST_ROUNDS:
        return late.by
    slower = mean([met[m].backward for met in timed for m in late.members])
    slower /= mean([met[m].backward for met in timed for m in late.others])
    return mean([ranks.own(m) for m in late.others]) * (slower - 1)


def _gain(run: Features, ranks: Team, late: _Late, why: str, queueing: float) -> Speedup:
    """Return what it buys if late ranks need no longer than the others.

    `queueing` is what the late ranks queue longer, in s a round: a crowded machine goes on to hold somebody up. The
    others queue longer, too, as soon as nobody waits: likely as often more as all CPUs are taken, at the least for as
    much longer as the line of an endless crowd. At the most the exchange takes no longer then than in the quickest
    rounds, for nobody has to be woken up for it. What is computing may be a CPU whose core a stranger shares, for
    longer than the run was watched: it slows all that a rank does, and no part alone. Where only a batch is late no
    round becomes shorter than what the late one's host does beside waiting for it.
    """
    elsewhere = max(_around(ranks, late), late.by - _slowed(run, ranks, late))
    passing = why == "computing" and elsewhere < EXPLAINED * late.by
    beyond = _alone(ranks, late)
    least = least_round(run, ranks, late.members) - ranks.communication if why == "input" else 0.0
    works = [max(least, working) for working in _in_step(ranks, late)]

    def after(more: float) -> Speedup:
        return ranks.gain([more + working for working in works], passing=passing, beyond=beyond)

    awake = ranks.gain(works, ranks.undisturbed, beyond=beyond)
    lines = (_in_line(run, ranks, late, why, line) for line in (_taken, _endless))
    alone, crowded, likely, together = map(after, (0.0, queueing, *lines))
    steady = min(alone.low, crowded.low, likely.low)
    low = min(steady, likely.low, together.likely * (1 - ERROR))
    return replace(likely, low=low, steady=steady, high=max(alone.high, awake.likely))


def _alone(ranks: Team, late: _Late) -> float:
    """Return how many times as fast the rank that is done last goes on alone, if late ranks need no longer than others.

    1 where that is not one of the late ones.
    """
    last = max(range(len(ranks.ranks)), key=lambda m: ranks.ranks[m].loop)
    others = mean([ranks.own(m) for m in late.others])
    return max(1.0, ranks.own(last) / others) if last in late.members and others else 1.0


def _in_step(ranks: Team, late: _Late) -> list[float]:
    """Return the s that each round works if late ranks need no longer than the others: it ends with the last of all.

    Who is as quick as another varies as that one does, though not in the same rounds: as the other in the next one.
    """
    own = [[each[m] for m in late.others] for each in ranks.owns]
    return [max(*now, *following[: len(late.members)]) for now, following in zip(own, own[1:] + own[:1], strict=True)]


def _taken(use: float, cpus: float) -> float:
    """Return how often all CPUs are taken, each of them independently for this share of the time."""
    return math.pow(use, cpus)


def _endless(use: float, cpus: float) -> float:
    """Return how long the line is before as many servers if those who may still come are endlessly many."""
    return _taken(use, cpus) / (1 - use)


def _in_line(run: Features, ranks: Team, late: _Late, why: str, line: Callable[[float, float], float]) -> float:
    """Return the s a round that the others queue longer for a CPU once none of the ranks of this machine waits.

    All ranks then do their work of a round in less time. The `line` grows with the use of the CPUs, and in a longer
    round their use is lower: the round at which both agree is looked for.
    """
    machine = run.machine
    queued = mean([met[m].queued for met in ranks.rounds for m in late.others])
    if machine.job is None or machine.ranks != len(ranks.ranks) or not queued:
        return 0.0
    work = max(0.0, machine.job * ranks.seconds - (late.by * len(late.members) if why == "computing" else 0.0))
    first = low = mean(_in_step(ranks, late)) + ranks.communication
    high = max(low, ranks.seconds)

    def used(job: float) -> float:
        return line(min(FULL, (job + (machine.others or 0.0)) / machine.cpus), machine.cpus)

    now = used(machine.job)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if first + queued * (used(work / middle) - now) / max(now, SLIGHT) > middle:
            low = middle
        else:
            high = middle
    return max(0.0, high - first)


def _finding(run: Features, ranks: Team, late: _Late, why: str, parts: dict[str, float]) -> Finding:
    gain = _gain(run, ranks, late, why, max(0.0, parts["queueing"]))
    processes = [ranks.ranks[m] for m in late.members]
    theirs = ranks.own(late.members[0]) if len(processes) == 1 else mean([ranks.own(m) for m in late.members])
    usual = mean([ranks.own(m) for m in late.others])
    who = named(processes)
    need = "needs" if len(processes) == 1 else "need"
    loader = max((lo for lo in processes[0].loaders if lo.training), key=lambda lo: lo.wait_total, default=None)
    frame = next((f for f in processes[0].frames if not f.compute), None)
    place = {"input": loader.where if loader else "", "computing": frame.where if frame else ""}.get(why, "")
    return Finding(
        id="straggling-rank",
        says=(
            f"{who} {need} {theirs * 1e3:.3g} ms a step, the others {usual * 1e3:.3g} ms and then wait; "
            f"the difference is {why} ({max(0.0, parts[why]) * 1e3:.3g} ms)"
        ),
        do=KERNELS if why == "device" and _as_fast(run, ranks) else DO[why],
        share_lost=1 - 1 / max(1.0, gain.likely),
        speedup=gain,
        basis="the measured rounds, in which the late ranks take what the others took in the next one",
        falsified_by=f"{who} no longer late, and samples/s still below x{gain.low:.2f} of this run's",
        effect="identical",
        evidence={
            "rank": float(processes[0].rank if processes[0].rank is not None else -1),
            "own_s": theirs,
            "others_s": usual,
            "last_share": ranks.last(late.members),
            "communication_s": ranks.communication,
            "rounds": float(len(ranks.rounds)),
            **{f"more_{name}_s": seconds for name, seconds in parts.items()},
        },
        where=place,
    )
