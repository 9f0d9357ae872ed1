"""Somebody else's processes work on the device that this job uses.

What it sees: processes on the card that do not belong to the watched command, their SM time and memory (NVML).

Why it matters: without MPS the processes take turns: while theirs runs, yours stands still.

What to do: find out whose they are (the pids are named), take another card, or share it on purpose with `gputune
share`.

When it is wrong: when the other process is a display server or a monitor that holds a little memory and does nothing.

Sources: NVML API reference, nvmlDeviceGetProcessUtilization.
"""

from collections.abc import Iterator

from gputune.core.finding import Finding
from gputune.features import Device, Features, Process
from gputune.model.prediction import interval

CHECKLIST = ("sharing",)

THEIRS = 0.05  # of the SM time: below it, the others are no reason for anything
UNSURE = 0.15  # relative: how much of their time this job could have used depends on when they ran


def advise(run: Features) -> Iterator[Finding]:
    for device in run.devices:
        theirs = min(1.0, sum(device.others.values()))
        if theirs >= THEIRS:
            yield _finding(run, device, theirs)


def _finding(run: Features, device: Device, theirs: float) -> Finding:
    busy = max(theirs, device.busy if device.busy is not None else 1.0)
    ours = device.jobs_busy if device.jobs_busy is not None else max(0.0, busy - theirs)
    waiting = waiting_for_data(run)
    turns = 1 + len(device.others)  # equal time slices: nobody is held up by more than the number of those who share
    bound = min(turns, (ours + theirs) / ours) if ours > 0 else 1.0
    likely = min(1 + (bound - 1) * busy * (1 - waiting), 1 / (1 - on_device(run) * (1 - 1 / bound)))
    speedup = interval(max(1.0, likely), UNSURE)
    pids = [pid for pid in sorted(device.others, key=lambda p: -device.others[p]) if pid]
    who = f"pid {', '.join(str(p) for p in pids[:3])}" if pids else "processes of somebody else"
    return Finding(
        id="shared-device",
        says=f"{who} took {theirs:.0%} of the SM time of GPU {device.index} ({device.name}); this job had {ours:.0%}",
        do="take another card, end the other process, or share the card on purpose",
        share_lost=1 - 1 / speedup.likely,
        speedup=speedup,
        basis="time slices: their SM time given to this job, as far as it had work on the device",
        falsified_by="the same samples/s with the card to itself",
        effect="identical",
        evidence={
            "their_busy": theirs,
            "job_busy": ours,
            "busy": busy,
            "their_memory_b": device.others_memory or 0,
            "processes": len(device.others),
        },
    )


def on_device(run: Features) -> float:
    """Return the share of a loop in which its device may be at work for it, others' turns in between included.

    What a job does beside its device takes no longer for whoever else is on that. What was not timed may be all work.
    """
    return max((_may_work(process) for process in run.processes if process.loop > 0), default=1.0)


def _may_work(process: Process) -> float:
    step = process.device_step
    if step is None or step.works is None or step.whole <= 0:
        return 1.0
    timed = min(1.0, step.whole * process.steps / process.loop)
    return 1 - timed * max(0.0, 1 - (step.works + step.copying) / step.whole)


def waiting_for_data(run: Features) -> float:
    """Return the share of the loops that was spent in next(): time that a free device would not give back."""
    loops = sum(p.loop for p in run.processes)
    waits = sum(p.in_loop.get("loader.wait", 0.0) for p in run.processes)
    return min(1.0, waits / loops) if loops else 0.0
