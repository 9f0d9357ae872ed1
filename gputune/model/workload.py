"""The work behind a loader's batches, out of what was measured: what each batch and each step takes of what.

Wall times become CPU seconds, blocked seconds and a crowd: the form in which they can be replayed under other settings.
"""

import math
from collections.abc import Iterable

from gputune.core.figures import TINY, mean
from gputune.features import Device, Features, Loader, Machine, Process
from gputune.model import storage
from gputune.model.batch_handoff import delivery_of, getting_of, hand_over_of, late_of, usual_of
from gputune.model.minimum_samples import LEAST_SAMPLED
from gputune.model.rank_team import team
from gputune.model.replay import LoopSeries, Work

CROWD = 0.2  # cores used by others: below it, a queue at the CPUs is our own
MOST_CROWDED = 10.0  # threads a CPU: batches that take next to no CPU say little about the crowd
THROUGHOUT = 0.9  # of a loop in steps whose device was timed: evaluations between them work it as well
STANDS = 2.0  # times what is stolen on average: who stands still for longer waits for something else
LOCKED = (
    0.05  # of making a batch with a lock held: below it, nobody waits long for another; and of that, waiting for it
)


def job_of(run: Features, process: Process, loader: Loader) -> LoopSeries:
    """Return the work behind a loader's batches, as measured: what each batch and each step took of what."""
    return LoopSeries(
        fetches=tuple(_fetches(run, loader)) or (Work(0.0, 0.0),),
        steps=tuple(steps_of(run, loader)) or (Work(0.0, 0.0),),
        cpus=max(0.1, run.machine.cpus / run.machine.ranks),
        others=strangers(run, loader) / run.machine.ranks,
        delivery=delivery_of(loader, usual_of(run.machine)),
        late=late_of(loader, hand_over_of(loader)),
        taking=hand_over_of(loader) if loader.pins else 0.0,
        pins=tuple(_pins(run, loader)),
        floor=device_floor(run, process, (sum(loader.waits) + sum(loader.steps)) / max(1, len(loader.waits))),
        picks=tuple(_picks(loader)),
    )


def _picks(loader: Loader) -> Iterable[Work]:
    """Return the work of the batch sampler, without its queueing for a CPU: in the replay the crowd is there again.

    What the training thread computes in a next() is the sampler's, where that is slow. What neither computes nor can
    have queued waits for something.
    """
    picking = mean(loader.picks)
    if not picking or len(loader.next_cpus) < LEAST_SAMPLED:
        return [Work(pick, 0.0) for pick in loader.picks]
    cpu = min(1.0, mean(loader.next_cpus) / picking)
    blocked = max(0.0, 1 - cpu - loader.step_queued / picking)
    return [Work(pick * cpu, pick * blocked) for pick in loader.picks]


def _pins(run: Features, loader: Loader) -> Iterable[Work]:
    """Return the pinning of each batch, without its queueing for a CPU: in the replay the crowd is there again.

    What it neither computes nor queues for it waits for the GIL, or for the driver. Where the queue was not asked for,
    as in most batches that take no time worth asking, nothing else is taken to have held it up.
    """
    stretch = stretched(run)
    for pin in loader.pins:
        queued = pin.wall - pin.cpu if pin.queued is None else pin.queued
        blocked = max(0.0, pin.wall - pin.cpu - queued)
        stolen = stolen_from(pin.cpu, blocked, stretch)
        yield Work(pin.cpu + stolen, blocked - stolen)


def _fetches(run: Features, loader: Loader) -> Iterable[Work]:
    """Return the work of making each batch.

    The time that a disk at its limit needs for it is told apart, without the other readers that shared it.
    """
    tangle, stretch = entangled(run, loader), stretched(run)
    disk, readers = storage.at_the_limit(run, loader)
    standing = mean(fetch.blocked for fetch in loader.fetches)
    held, awaited = (0.0, 0.0) if tangle else locked(loader)
    share = min(1 / readers, disk / standing) if standing and not tangle and not held else 0.0
    for fetch in loader.fetches:
        blocked = 0.0 if tangle else fetch.blocked * (1 - share * readers)
        stolen = stolen_from(fetch.cpu, blocked, stretch)
        work = Work(fetch.cpu + stolen, blocked - stolen, disk=fetch.blocked * share)
        yield _in_turns(work, held, awaited) if held else work


def locked(loader: Loader) -> tuple[float, float]:
    """Return the s of making a batch in which a lock is held that all makers want, and those waiting for it.

    Nothing where it is hardly ever held, or where several makers never wait for each other: then each has its own.
    """
    held, awaited = mean(r.held for r in loader.reads), mean(r.locked_out for r in loader.reads)
    if held < LOCKED * mean(fetch.wall for fetch in loader.fetches):
        return 0.0, 0.0
    alone = loader.num_workers > 1 and awaited < LOCKED * held
    return (0.0, 0.0) if alone else (held, awaited)


def _in_turns(work: Work, held: float, awaited: float) -> Work:
    """Return the making of a batch of which `held` s are such that one maker at a time does them."""
    blocked = max(0.0, work.blocked - awaited)
    inside = min(held, blocked)
    return Work(max(0.0, work.cpu - (held - inside)), blocked - inside, disk=held)


def stretched(run: Features) -> float:
    """Return by how much of its CPU time work here takes longer, since the host of a virtual machine has others run.

    Such time is neither CPU time nor a queue of ours; but it needs the CPU, and no other work of ours has it.
    """
    share = theft(run.machine)
    return share / (1 - share)


def stolen_from(cpu: float, blocked: float, stretch: float) -> float:
    """Return how many of the s for which work stood still were stolen from it.

    None where it stood still for much more than that: then it waits for something, and what is stolen from a machine
    that sleeps is the time in which it is woken.
    """
    return min(blocked, cpu * stretch) if blocked <= STANDS * cpu * stretch else 0.0


def theft(machine: Machine) -> float:
    """Return the share of the CPU time wanted here that the host of a virtual machine gave to others."""
    # A host that seems to take more than 0.9 of the CPU time wanted makes the clocks doubtful
    return min(0.9, (machine.stolen or 0.0) / machine.busy) if machine.busy else 0.0


def step_cpu_of(loader: Loader) -> float:
    """Return the CPU s of the training process in a step: read at the steps' ends, else its share of the whole loop."""
    if len(loader.step_cpus) >= LEAST_SAMPLED:
        return mean(loader.step_cpus)
    getting = min(getting_of(loader), delivery_of(loader)) if loader.num_workers else 0.0
    return max(0.0, (loader.step_cpu or 0.0) - getting)


def step_queued_of(loader: Loader) -> float:
    """Return the s that the training process queues for a CPU in a step: of the loop's, what the step leaves room for.

    In a step that was timed on both clocks it can only be what neither computing nor a pause explains. The queue is the
    first thread's, the CPU time that of all: it is shared out over as many threads as must have been at work, for one
    cannot compute and queue for longer than the loop takes, nor compute in a step for longer than that.
    """
    if len(loader.step_cpus) < LEAST_SAMPLED:
        return loader.step_queued
    cpu, per_batch = mean(loader.step_cpus), mean(loader.waits) + mean(loader.steps)
    # The CPU clock is of some steps and the queue of all: the two may disagree by 0.1 threads
    at_work = max((cpu + loader.step_queued) / max(TINY, per_batch), cpu / max(TINY, mean(loader.steps)))
    threads = max(1, math.ceil(at_work - 0.1))
    explained = cpu / threads + sum(mean(series) for series in loader.pauses.values())
    return min(loader.step_queued, max(0.0, mean(loader.steps) - explained))


def entangled(run: Features, loader: Loader) -> bool:
    """Return whether workers have threads of their own, and together more than there are CPUs.

    Then the time in which a worker neither runs nor queues is no I/O: its first thread waits for its other ones.
    """
    threads = (loader.worker_threads or 1) * loader.num_workers
    return (loader.worker_threads or 1) > 1 and threads > run.machine.cpus / run.machine.ranks


def strangers(run: Features, loader: Loader) -> float:
    """Return how many foreign threads compete for the CPUs: at least the cores they use.

    Where they crowd the CPUs, more of them want to run than do. How many shows in the share of the time for which the
    training and the makers of its batches, when runnable, had a CPU: the CPUs over all runnable threads, ours included.
    But they stand in the same queues: no more of them want to run than that share makes of the cores that they use.
    """
    used = run.machine.others or 0.0
    cpu = mean(f.cpu for f in loader.fetches) + (loader.step_cpu or 0.0)
    queued = mean(f.queued for f in loader.fetches) + step_queued_of(loader)
    per_batch = mean(loader.waits) + mean(loader.steps)
    if used < CROWD or not cpu or not queued or not per_batch or entangled(run, loader):
        return used
    ours = (cpu + queued) / per_batch if loader.num_workers else 1.0
    each = min(MOST_CROWDED, (cpu + queued) / cpu)
    return max(used, min(used * each, run.machine.cpus * each - ours))


def steps_of(run: Features, loader: Loader) -> Iterable[Work]:
    """Split each step into its CPU part and the rest, by the means over the loop."""
    if not loader.steps:
        return
    whole = mean(loader.steps)
    active = whole - min(step_queued_of(loader), 0.8 * whole)
    cpu = step_cpu_of(loader)
    width = min(max(1.0, cpu / active if active else 1.0), max(1.0, run.machine.cpus))
    share = min(1.0, cpu / width / active) if active else 0.0
    width, together = _team(active * share, whole - active, width, run.machine.cpus)
    stretch = stretched(run)
    for step in loader.steps:
        alone = step * active / whole if whole else 0.0
        computing = alone * share * together
        stolen = stolen_from(computing, alone * (1 - share), stretch)
        yield Work(computing + stolen, alone * (1 - share) - stolen, width)


def _team(computing: float, queued: float, width: float, cpus: float) -> tuple[float, float]:
    """Return how many threads a step has that wait for each other, and the part of `computing` in which all had a CPU.

    The first of them computes for so many s, or spins for others, and is `queued` s for a CPU. The others queue as
    often, and keep it waiting; so on average they kept no more than `width` CPUs busy.
    """
    if width <= 1 or computing <= 0:
        return width, 1.0
    had = computing / (computing + queued)
    wide = min(max(1.0, cpus), 1 + (width - 1) / had)
    return wide, Work(0.0, 0.0, wide).pace(had) / had


def rounds_per_batch(process: Process) -> float:
    """Return how often a rank meets the others for each batch (or step, without a DataLoader), 0 if it meets nobody."""
    return process.rounds / process.steps if process.meetings and process.steps else 0.0


def stood(process: Process) -> float:
    """Return the s per batch that a device stands still for other ranks and for the transfer, as far as it was timed.

    On its clock, and in NVML's busy share, that is work: the kernel that waits for another rank spins.
    """
    return mean([m.apart for m in process.meetings if m.on_device]) * rounds_per_batch(process)


def for_others(run: Features, process: Process) -> float:
    """Return the s per batch of these that go with waiting for ranks that come later; the transfer is left out.

    Those of the steps that the device's work was timed in, where these tell it: others are late by chance.
    """
    timed = process.device_step
    standing = timed.standing if timed is not None and timed.standing else stood(process)
    met = team(run) if standing else None
    return max(0.0, standing - met.communication * rounds_per_batch(process)) if met else 0.0


def device_time(run: Features, process: Process, per_batch: float) -> float:
    """Return the s per batch that the device works in any case: no loader setting can go below it.

    Waiting for other ranks is no work. The transfer stays in, which no setting of a loader takes away.
    From the device's own clock where the guest had it, else from NVML's busy share of the time per batch (s).
    """
    busy = mean(d.busy for d in run.devices if d.busy is not None) * per_batch
    return max(0.0, (mean(process.works) if process.works else busy) - for_others(run, process))


def device_floor(run: Features, process: Process, per_batch: float) -> float:
    """Return the s per batch that no loader setting can go below: the device's work, waiting for others included.

    Kernels and the copies between them where they were measured: what a device idles between the first and the last
    kernel of a step, since it ran dry and the host has only begun to queue, goes where batches no longer come late.
    """
    timed = process.device_step
    if timed is not None and timed.works is not None:
        return timed.works + timed.copying
    return device_time(run, process, per_batch) + for_others(run, process)


def device_work(run: Features, process: Process, per_batch: float) -> float:
    """Return the s per batch in which the device ran kernels.

    As measured where it ran them without a gap. Else its own clock is read where a step begins and where it ends: what
    it idles in between, because the host is slow or reads a result, is in that time. NVML's busy share leaves it out.
    """
    if process.kernels is not None:
        return max(0.0, process.kernels - for_others(run, process))
    found = device_time(run, process, per_batch)
    shares = [d.busy for d in run.devices if d.busy is not None]
    return min(found, max(0.0, max(shares) * per_batch - for_others(run, process))) if shares else found


def device_share(run: Features, process: Process) -> float | None:
    """Return the share of a process's loop in which its device runs kernels, None where nothing tells it.

    By the device's own clock where work was measured without gaps; NVML's share, which counts whatever runs on the
    card and is no ceiling, only where it was not.
    """
    steps = process.steps
    if process.kernels is not None and steps and process.loop > 0:
        each = process.loop / steps
        return min(1.0, device_work(run, process, each) / each)
    return max((d.busy for d in run.devices if d.busy is not None), default=None)


def busy_of(run: Features, device: Device) -> float | None:
    """Return the share of the loop in which a device works for this job: what nothing makes shorter but its own speed.

    By its own clock where each process has a device of its own, and all of its loop was timed; else NVML's share, which
    counts a kernel that waits, or one of somebody else, as well. Of several processes the one that works most.
    """
    loops = [p for p in run.processes if p.loop > 0]
    if loops and len(loops) == len(run.devices) and all(_timed_throughout(p) for p in loops):
        return max(device_share(run, p) or 0.0 for p in loops)
    return device.busy


def _timed_throughout(process: Process) -> bool:
    """Return whether the device's work is known without gaps, and nothing much in the loop but the steps timed."""
    timed, steps = process.device_step, process.steps
    return timed is not None and timed.compute is not None and timed.whole * steps >= THROUGHOUT * process.loop


def device_between(run: Features, process: Process, per_batch: float, paused: float) -> tuple[float, float]:
    """Return the least and the most s per batch in which the device ran kernels, if the host pauses for `paused` of it.

    Its own clock runs on in a pause: whether the device then works off what was queued before, or idles, it cannot
    tell. NVML's busy share can: of several ranks the least, for where one pauses alone its device idles, and those of
    the others run the kernel that waits for it.
    """
    if process.kernels is not None:
        work = device_work(run, process, per_batch)
        return work, work
    found = device_time(run, process, per_batch)
    shares = [d.busy for d in run.devices if d.busy is not None]
    if not shares:
        return max(0.0, found - paused), found
    busy = min(shares) if run.machine.ranks > 1 else max(shares)
    measured = min(found, max(0.0, busy * per_batch - for_others(run, process)))
    return measured, measured
