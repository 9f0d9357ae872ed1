"""Somebody else uses the CPUs that this job works on, and the training waits for them.

What it sees: the cores that foreign processes use on the CPUs of this job, the heaviest of them by pid and name, and
for how long makers of batches and the training itself were runnable without a CPU (`/proc/PID/schedstat`). Where no
CPU is left and nobody waits long enough for a gain to be sure, it says so without a promise.

Why it matters: a worker that has half a CPU makes half as many batches; and a step of many threads is as late as the
last of them.

What to do: end or move the others, or give the job CPUs of its own (`taskset`, a cpuset, a reservation of the batch
system). Until then fewer threads wait less for each other: `torch.set_num_threads(N)` with the CPUs that are left.
torch's default is a thread for each CPU of the machine, whoever uses it.

When it is wrong: when the others are gone in the next run. What belongs to the job but was not started by the watched
command (a data server, a decoder) counts as somebody else.

Sources: Linux, Documentation/scheduler/sched-stats; the prediction is `gputune/model/replay.py` without the others.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from gputune.core.finding import NO_CHANGE, Finding, Speedup
from gputune.features import Features, Machine
from gputune.model.crowding import WAITING
from gputune.model.minimum_samples import settled
from gputune.model.prediction import ERROR, Outlook, foreign, outlooks
from gputune.model.strangers import alone
from gputune.model.workload import CROWD, step_queued_of

FULL = 0.95  # of the CPUs in use: nobody finds one that is free
MANY = 0.5  # cores used by others that are worth a word where they cost nothing that is known
NAMED = 3  # neighbours in the sentence
TEAM = 1.5  # threads of a step: from here on, their number is worth a word
MOST_WAITED = 0.9  # of a loop spent waiting for a CPU: beyond it, the clocks and not the crowd are to be doubted


def advise(run: Features) -> Iterator[Finding]:
    if (run.machine.others or 0.0) < CROWD:
        return
    found = list(_slowed(run))
    yield from found
    if not any(f.speedup.promised for f in found):
        yield from _full(run)


def _slowed(run: Features) -> Iterator[Finding]:
    """Speak for the loop that the others cost most."""
    found = outlooks(run)
    # so much of making a batch, or of a step, without a CPU: below it, nobody stands in the way
    waiting = [o for o in found if o.queued >= WAITING or _queued(o) >= WAITING]
    if waiting:
        outlook = max(waiting, key=lambda o: alone(o).likely)
        width = max((step.width for step in outlook.job.steps), default=1.0)
        yield _finding(run.machine, alone(outlook), _queued(outlook), outlook.queued, width)
    elif not found:
        yield from _of_steps(run)


def _queued(outlook: Outlook) -> float:
    """Return the share of its time that the training itself is runnable without a CPU."""
    return step_queued_of(outlook.loader) / outlook.per_batch if outlook.per_batch else 0.0


def _of_steps(run: Features) -> Iterator[Finding]:
    """Speak for the training process that queues most, where no DataLoader was measured.

    While a team of threads works, all of them work or wait: what each waits, the loop does.
    """
    heard = [p for p in run.processes if p.guest == "ring" and p.queued and p.cpu and p.loop > 0]
    process = max(heard, key=lambda p: p.queued or 0.0, default=None)
    if process is None or not settled(process):
        return
    team = max(1.0, (process.cpu or 0.0) + (process.queued or 0.0))
    queued = min(MOST_WAITED, (process.queued or 0.0) / team)
    if queued >= WAITING:
        likely = 1 / (1 - queued * foreign(run.machine, process))
        speedup = Speedup(low=max(0.01, likely * (1 - 2 * ERROR)), likely=likely, high=likely * (1 + 2 * ERROR) * team)
        yield _finding(run.machine, speedup, queued, 0.0, team)


def _full(run: Features) -> Iterator[Finding]:
    """Say that the CPUs are all in use, and by whom, where nobody can say what that costs this training.

    Two CPUs of a virtual machine may be one core, and who shares a core is slow without ever waiting for a CPU.
    """
    machine = run.machine
    others, ours = machine.others or 0.0, machine.job or 0.0
    trains = any(p.guest == "ring" and p.loop > 0 for p in run.processes)
    if not trains or others < MANY or others + ours < FULL * machine.cpus:
        return
    yield replace(
        _finding(machine, NO_CHANGE, 0.0, 0.0, 1.0),
        says=f"of the {machine.cpus:g} CPUs this job uses {ours:.1f} and others {others:.1f}: none is left",
        risk=(
            f"others use {_theirs(machine)}: what more workers or threads promise on CPUs of one's own, they do not "
            "keep here"
        ),
        basis="the CPU time of all processes on the CPUs of this job, against what these have",
        falsified_by=f"CPUs that idle for more than {1 - FULL:.0%} of the time while it trains",
    )


def _theirs(machine: Machine) -> str:
    """Name the CPUs that others use, and who they are."""
    heavy = machine.neighbours[:NAMED]
    who = f" ({', '.join(f'{n.name}, pid {n.pid}: {n.cores:.1f}' for n in heavy)})" if heavy else ""
    return f"{machine.others or 0.0:.1f} of the {machine.cpus:g} CPUs{who}"


def _whom(machine: Machine) -> str:
    """Name those whom to end or move, where they are known."""
    pids = [f"{n.pid}" for n in machine.neighbours[:NAMED]]
    return f"the others (pid {', '.join(pids)})" if pids else "the others"


def _finding(machine: Machine, speedup: Speedup, stepping: float, making: float, width: float) -> Finding:
    others = machine.others or 0.0
    left = max(1, math.floor(machine.cpus - others))
    heavy = machine.neighbours[:NAMED]
    fewer = (
        f"; until then torch.set_num_threads({left})" if width >= TEAM and left < machine.cpus / machine.ranks else ""
    )
    return Finding(
        id="busy-host",
        says=f"others use {_theirs(machine)}; {_waits(stepping, making)}",
        do=f"end or move {_whom(machine)}, or give this job CPUs of its own{fewer}",
        share_lost=max(0.0, 1 - 1 / speedup.likely),
        speedup=speedup,
        basis="the loop replayed without the others' use of the CPUs",
        falsified_by="the same samples/s once the others are gone",
        effect="changes-rounding" if fewer else "identical",
        because="with other numbers of threads; without the others there is no change" if fewer else "",
        evidence={
            "others_cores": others,
            "cpus": machine.cpus,
            "job_cores": machine.job or 0.0,
            "step_queued": stepping,
            "batch_queued": making,
            "step_threads": width,
            **{f"pid_{n.pid}_cores": n.cores for n in heavy},
        },
    )


def _waits(stepping: float, making: float) -> str:
    """Say who waits for a CPU, and for how much of the time."""
    if stepping < WAITING:
        return f"data loading waits for a CPU {making:.0%} of its time"
    loading = f", data loading {making:.0%}" if making >= WAITING else ""
    return f"the training waits for a CPU {stepping:.0%} of its time{loading}"
