"""Findings held against what slowing the training's own thread down did to its rounds: a clock knows better.

A small saving in that thread is worth as much of itself as its rounds got longer for each second that it was held up
(its slope): nothing where they wait for the loader, the device or another rank in any case. And where all of it shows,
nobody else is waited for: no change of workers brings anything. Being held up asleep takes no CPU, so nothing is
concluded where CPUs are short: there less work frees some for others.
"""

from dataclasses import replace

from gputune.core.figures import TINY
from gputune.core.finding import Finding, Speedup
from gputune.features import Features, Process, Slope
from gputune.model.turns import SHORT
from gputune.verdict import arbitration

SHARP = 0.25  # standard error from which on a slope is too blunt to be held against anything
SETS = 0.5  # a slope that is surely above it is of a thread that sets the pace
ROUNDS = 8  # that were slowed down in a row, as the guest has it: a longer pause was never tried
AT_ITS_PLACE = frozenset({"work-after-step", "preprocessing-in-loop", "host-bound", "small-batch"})
ON_HOST = AT_ITS_PLACE | {"python-in-step", "anomaly-detection"}  # anywhere in a step, which is one row on a host
BY_WORKERS = frozenset(
    {
        *("few-workers", "low-prefetch", "serialized-workers", "straggling-worker", "heavy-preprocessing"),
        *("small-files", "slow-storage", "remote-storage", "shared-manager", "heavy-shard"),
    }
)


def paced(run: Features, finding: Finding) -> Finding:
    """Return a finding with what its gain is worth as far as the pace of the loop was measured, else as it is."""
    if arbitration.is_told(finding):
        return finding
    process = _meant(run, finding)
    slope = None if process is None else process.pace
    if process is None or slope is None or slope.error > SHARP:
        return finding
    if finding.id in BY_WORKERS:
        return _behind(run, finding, process, slope)
    if not _is_of_thread(process, finding, slope):
        return finding
    return _worth(run, finding, slope, alone=finding.id in arbitration.PAUSES and _is_alone(run, process))


def _meant(run: Features, finding: Finding) -> Process | None:
    """Return the process that a finding is about; of ranks whose pace is known the one that sets it, else None."""
    looping = [process for process in run.processes if process.loop > 0]
    if finding.id == "straggling-rank":
        return next((process for process in looping if process.rank == finding.evidence.get("rank")), None)
    known = [(process.pace.value, number) for number, process in enumerate(looping) if process.pace is not None]
    return looping[max(known)[1]] if known and len(known) == len(looping) else None


def _is_of_thread(process: Process, finding: Finding, slope: Slope) -> bool:
    """Return whether what a finding takes off the loop is such work as was put into it."""
    if finding.id == "straggling-rank":
        return True
    if finding.id in arbitration.PAUSES:
        return process.on_host and finding.evidence.get("each_s", slope.delay * ROUNDS) < slope.delay * ROUNDS
    return finding.id in (ON_HOST if process.on_host else AT_ITS_PLACE)


def _is_alone(run: Features, process: Process) -> bool:
    """Return whether there is nobody that the training's thread could wait for while it computes on its host.

    If it loses little by being held up then, what its pauses wait for goes on meanwhile (a disk that writes), and goes
    away with them.
    """
    workers = any(loader.num_workers for loader in process.loaders if loader.training)
    return not workers and not process.queues and sum(each.loop > 0 for each in run.processes) == 1


def _are_short(run: Features) -> bool:
    """Return whether CPUs are."""
    # so much of the CPUs: with more in use they are what is waited for
    return run.machine.busy is None or run.machine.busy > SHORT * run.machine.cpus


def _worth(run: Features, finding: Finding, slope: Slope, *, alone: bool) -> Finding:
    """Return it with the part of its gain that the slope leaves; all of it where the thread may set the pace."""
    told = f"measured: held up {slope.delay * 1e3:.2g} ms a round, {slope.count} times for {ROUNDS} rounds, these took "
    told += f"{min(1.0, max(0.0, slope.value)):.0%} of that longer"
    if slope.most > SHORT:
        return _as_told(finding, slope, told) if slope.least > SETS else finding
    if alone or _are_short(run):
        return finding
    gain = finding.speedup
    low, likely, high = (
        1 / (1 - (1 - 1 / max(1.0, each)) * part)
        for each, part in (
            (gain.low, slope.least),
            (gain.likely, min(slope.most, max(0.0, slope.value))),
            (gain.high, slope.most),
        )
    )
    likely = max(low, likely)
    less = Speedup(low=min(low, gain.low), likely=likely, high=max(likely, high), at_least=gain.at_least)
    lost = min(finding.share_lost, 1 - 1 / less.likely)
    return _as_told(replace(finding, speedup=less, share_lost=lost), slope, told)


def _behind(run: Features, finding: Finding, process: Process, slope: Slope) -> Finding:
    """Return a finding about workers with no more gain than a thread leaves that sets the pace of most rounds.

    Rounds of several times the usual length were not among those that the slope is of, and few of them may hold most of
    the time: what is waited for in all can go.
    """
    loader = arbitration.loader_of(run, finding)
    if loader is None or not loader.num_workers or slope.least <= SETS:
        return finding
    waited = process.ledger.get("loader.wait", 0.0) / process.loop
    limit, gain = max(1 / slope.least, 1 / max(TINY, 1 - waited)), finding.speedup
    if gain.likely <= limit:
        return finding
    low, likely, steady = (min(end, limit) for end in (gain.low, gain.likely, gain.steady))
    less = replace(gain, low=low, likely=likely, high=min(gain.high, limit), steady=steady)
    told = f"measured: the training thread sets the pace in {slope.least:.0%} of the rounds at the least"
    return _as_told(replace(finding, speedup=less, share_lost=min(finding.share_lost, 1 - 1 / likely)), slope, told)


def _as_told(finding: Finding, slope: Slope, told: str) -> Finding:
    more = {"slope": slope.value, "slope_error": slope.error, "slopes": float(slope.count)}
    own = "slope" in finding.evidence  # that of its workers
    return replace(
        finding,
        basis=f"{told}; {finding.basis}",
        evidence={**finding.evidence, **({f"thread_{name}": value for name, value in more.items()} if own else more)},
    )
