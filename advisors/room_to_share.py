"""Nothing is wrong, but the device is half empty: more trainings like this one fit beside it.

What it sees: busy share and memory of the device, with nobody else on it, the cores that the job uses against those
that it may use, and the memory of the host.

Why it matters: several small trainings (a parameter search, folds of a cross-validation, seeds) one after another
leave the device idle as often as one does.

What to do: `gputune share --procs N TASK` runs several at once on the device, each with a log of its own, checks that
they fit and says what they do together, which is what counts. Best under MPS, which lets their kernels run side by
side.

When it is wrong: when there is only one training to do: alone it does not get faster by this. When kernels of several
processes fight for the memory's bandwidth, together they gain less than their busy shares promise.

Sources: NVIDIA, "Multi-Process Service"; measured gains of collocation go up to three times, with MPS some 30 % on
top, and losses where the memory's bandwidth is the limit (docs/evidence.md).
"""

from collections.abc import Iterator

from gputune.core.figures import TINY
from gputune.core.finding import NO_CHANGE, UNUSED, Finding
from gputune.features import Device, Features, Machine, Process
from gputune.model.minimum_samples import LEAST_BATCHES
from gputune.model.workload import busy_of

CHECKLIST = ("sharing",)

ROOM = 0.9  # of the device's time and of its memory that all together may take: what is over waits or dies
HOST = 0.8  # of the CPUs and of the free memory of the host that all together may take
MOST = 16  # processes: beyond it, contexts and launches take what is gained
CONTEXT = 500e6  # B of device memory for each further process, besides what the training itself takes


def advise(run: Features) -> Iterator[Finding]:
    alone = [p for p in run.processes if p.guest == "ring" and p.loop > 0]
    if len(run.devices) != 1 or len(run.processes) != 1 or not alone or (alone[0].world_size or 1) > 1:
        return  # a job of several processes or devices is spread out already
    process, device = alone[0], run.devices[0]
    busy = busy_of(run, device)
    if busy is None or not device.memory_used or not device.memory_total or device.others:
        return
    timed = process.device_step is not None and process.precision.devices != ("cpu",)
    works = busy >= UNUSED or (timed and busy > 0)
    if process.steps < LEAST_BATCHES or not works:
        return
    if busy == device.busy:  # by NVML, which knows more of this process alone
        busy = max(busy, device.jobs_busy or 0.0)
    limits = _limits(busy, run.machine, device.memory_used, device.memory_total)
    fits = int(min(MOST, *limits.values()))
    if fits >= 2:
        yield _finding(process, device, busy, limits, fits)


def _limits(busy: float, machine: Machine, used: int, total: int) -> dict[str, float]:
    """Return how many such trainings the device's time, its memory, the CPUs and the host's memory hold."""
    limits = {
        "device time": ROOM / max(busy, TINY),
        "device memory": (ROOM * total + CONTEXT) / (used + CONTEXT),
    }
    if machine.job:
        spare = max(0.0, HOST * (machine.cpus - (machine.others or 0.0)))
        limits["CPUs"] = spare / machine.job
    if machine.memory_job and machine.memory_free is not None:
        limits["host memory"] = 1 + HOST * machine.memory_free / machine.memory_job
    return limits


def _finding(process: Process, device: Device, busy: float, limits: dict[str, float], fits: int) -> Finding:
    used, total = device.memory_used or 0, device.memory_total or 1
    first = min(limits, key=lambda name: limits[name])
    beyond = f"beyond {MOST}, contexts and launches take the gain"
    more = f"{first} is the limit" if limits[first] < MOST + 1 else beyond
    return Finding(
        id="room-to-share",
        says=(
            f"this training keeps GPU {device.index} ({device.name}) busy {busy:.0%} of the time, takes "
            f"{used / total:.0%} of its memory, and nothing holds it up"
        ),
        offer=f"{fits} such trainings fit on it at once, and together do up to x{fits} the work; {more}",
        do=f"run them as `gputune share --procs {fits} TASK`: it checks that they fit, and says what all do together",
        share_lost=0.0,
        speedup=NO_CHANGE,
        basis="what one takes of the device's time and memory, the CPUs and the host's memory, against what there is",
        falsified_by=f"{fits} at once that together do less than one after another",
        effect="identical",
        evidence={
            "busy": busy,
            "memory_used": used / total,
            "procs": fits,
            "steps": process.steps,
            **{f"fits_by_{name.replace(' ', '_')}": min(value, 1000.0) for name, value in limits.items()},
        },
        change={"procs": fits},
    )
