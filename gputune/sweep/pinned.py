"""What page-locked batches save of each step of a sweep's loop.

Measured where one batch was handed out again and again both from pageable and from page-locked memory: what differs
between the two is what the copies cost the loop, whatever the script waits for. Else by the lanes of a step, as
`unpinned-memory` predicts it, and no faster than a thread pins at the rate of the copies that are staged now: that is
the least that it does. Where the gain was measured it is hoped for instead, for a visit tells what the thread does.
"""

from dataclasses import replace

from gputune.core.figures import TINY
from gputune.features import Features, Process
from gputune.model.pinning import measured_rate, pageable, pinning_rate
from gputune.model.prediction import Outlook
from gputune.model.replay import LoopSeries, Work
from gputune.model.transfers import ASKED, lanes, times_faster


def on_device(run: Features, process: Process) -> bool:
    """Return whether the process computes on a device: NVML has seen it there, or its guest its kernels or copies."""
    return bool(run.devices or process.works or process.copies)


def holding(outlook: Outlook) -> float:
    """Return the share of a step, waiting for its batch left out, for which copies from pageable memory hold it."""
    process = outlook.process
    seconds = sum(copy.seconds for copy in pageable(process.copies))
    return seconds / max(1, process.steps) / max(TINY, outlook.stepping)


def saved(run: Features, process: Process) -> float:
    """Return the s that a step is likely to be shorter with page-locked batches, the loader left out of it."""
    copies = pageable(process.copies)
    step = lanes(run, process, copies) if copies else None
    if step is None:
        return 0.0
    size = sum(copy.size for copy in copies) / max(1, process.steps)
    _, likely, _ = times_faster(run, step.moving, size)
    unattended = all(copy.non_blocking >= ASKED for copy in copies)
    return max(0.0, step.step - replace(step, least=0.0).then(likely, unattended=unattended))


def pinned(outlook: Outlook, seconds: float, *, measured: bool) -> LoopSeries:
    """Return the loop with page-locked batches, which save `seconds` of a step, and of what the device does of it.

    `measured`: they were seen to. What held the training thread waited or span: it goes of either.
    """
    run, copies = outlook.run, outlook.process.copies
    job = outlook.pinned_at(outlook.job, measured_rate(run) if measured else pinning_rate(run, copies))
    steps = tuple(_shorter(work, seconds) for work in job.steps)
    return replace(job, steps=steps, floor=max(0.0, job.floor - seconds))


def _shorter(work: Work, seconds: float) -> Work:
    computed = max(0.0, seconds - work.blocked) * work.width
    return replace(work, blocked=max(0.0, work.blocked - seconds), cpu=max(0.0, work.cpu - computed))
