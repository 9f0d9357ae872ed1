"""What it buys to take work out of the training loop: to move it into the workers, or to leave it out."""

import math
import re
from collections.abc import Mapping
from dataclasses import replace

from gputune.core.figures import TINY, mean
from gputune.core.finding import Speedup
from gputune.features import Features, Process
from gputune.model.batch_handoff import usual_of
from gputune.model.prediction import CANDIDATES, ERROR, GOOD_ENOUGH, interval, known, unsteady, within
from gputune.model.replay import TYPICAL_PREFETCH, LoopSeries, Work
from gputune.model.workload import device_work, stretched

NOTABLE = 0.08  # of the loop, in Python beside the model: any loop has counters, a schedule and a progress bar
LOOKED_AT = re.compile(r"^[^+]*$|\+(cpu|cu|rocm)")  # version of a torch whose devices, if any, are looked at
OUTNUMBERED = 1.3  # times as many batches: what workers must promise that leave the step no CPU of its own


def moved_to_workers(run: Features, process: Process, each: float) -> tuple[int, Speedup]:
    """Return num_workers, and what it buys to do in them what takes `each` s of every step in the loop.

    Of these it needs a CPU for as large a share as of the whole step; in the rest others had it.
    """
    steps = process.steps
    cpus = max(0.1, run.machine.cpus / run.machine.ranks)
    found = known(run, process)
    if found:
        job = found[0].job
        present = found[0].now.workers
        each *= min(1.0, mean(s.cpu + s.blocked for s in job.steps) / max(TINY, found[0].stepping))
    else:
        cpu = (process.cpu or 0.0) * process.loop / steps
        whole = process.loop / steps
        width = max(1.0, min(cpus, cpu / whole))
        busy = min(whole, cpu / width * (1 + stretched(run)))
        floor = device_work(run, process, whole)
        job = LoopSeries(
            fetches=(Work(0.0, 0.0),),
            steps=(Work(busy, whole - busy, width),),
            cpus=cpus,
            floor=floor,
            delivery=usual_of(run.machine),
        )
        present = 0
    now = job.seconds(present, TYPICAL_PREFETCH)
    moved = replace(
        job,
        fetches=tuple(replace(f, cpu=f.cpu + each) for f in job.fetches),
        steps=tuple(_less(step, each) for step in job.steps),
    )
    tried = {n: moved.seconds(n, TYPICAL_PREFETCH) for n in CANDIDATES if n <= max(1, round(cpus), present)}
    chosen = _chosen(tried, max(present, cpus - max(step.width for step in moved.steps)))
    rest = max(0.0, process.loop / steps - now)  # pauses, evaluations: they stay
    return chosen, interval((now + rest) / max(TINY, tried[chosen] + rest), 2 * ERROR, unsteady(run))


def _chosen(tried: Mapping[int, float], spare: float) -> int:
    """Return the smallest number of workers about as good as any, where `spare` of them leave the step its CPU.

    With more than these it takes turns with one of them, and loses more than its turns: even sharing is not what comes
    of it.
    """
    ample = {n: seconds for n, seconds in tried.items() if n <= max(1, spare)}
    best = min(tried.values())
    if min(ample.values()) <= best * OUTNUMBERED:
        tried, best = ample, min(ample.values())
    return min(n for n, seconds in tried.items() if seconds <= best * GOOD_ENOUGH)


def share_left_out(run: Features, process: Process, share: float) -> Speedup:
    """Return what it buys to do without work that takes so much of the loop, alike in every step."""
    return left_out(run, process, share * process.loop / process.steps)


def made_by_more(run: Features, process: Process, share: float) -> tuple[float, Speedup]:
    """Return what it buys if more threads or processes make what the training waits for, for such a share of the loop.

    With how many times the pace the CPUs could feed: they do the same work then, only side by side, and what others use
    is theirs.
    """
    used = run.machine.job or process.cpu or 0.0
    if not used:  # it was not measured
        return math.inf, share_left_out(run, process, share)
    free = max(0.0, run.machine.cpus - (run.machine.others or 0.0) - used)
    most = 1 + free / used
    return most, within(share_left_out(run, process, share), most)


def left_out(run: Features, process: Process, each: float) -> Speedup:
    """Return what it buys to do without work that takes `each` s of every step in the loop.

    No step gets shorter than its loader takes for a batch, or its device to work.
    """
    steps = process.steps
    whole = process.loop / steps
    paces = [outlook.fastest() / steps for outlook in known(run, process)]
    least = max([TINY, device_work(run, process, whole), *paces])

    return interval(max(1.0, whole / max(least, whole - each)), ERROR, unsteady(run))


def for_a_device(run: Features, process: Process) -> float:
    """Return the s of a step that work which shows nothing but a line may be a wait for the device: its whole work.

    Endless where there is a device of which nobody knows how long it works.
    """
    if not process.works and all(device.busy is None for device in run.devices):
        unknown = run.devices or process.copies or not LOOKED_AT.search(process.torch)
        return math.inf if unknown else 0.0
    return device_work(run, process, process.loop / process.steps)


def _less(step: Work, seconds: float) -> Work:
    """Return a step without `seconds` of single-threaded CPU work that were part of it."""
    cpu = max(0.0, step.cpu - seconds)
    return Work(cpu, max(0.0, step.blocked - max(0.0, seconds - step.cpu)), step.width)
