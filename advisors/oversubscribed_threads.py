"""More threads compute than this job has CPUs: torch's own, of one process or of several together.

What it sees: how many threads torch has for one operation (`torch.get_num_threads()`) in each process whose model lies
on the host, how many such processes live at once, and the CPUs that the job may use: affinity and cgroup quota, which
torch does not ask for. And that the training is runnable without a CPU although nobody else uses these CPUs; or that
workers compute on the CPUs that a step has as many threads as.

Why it matters: the threads of an operation wait for the last of them. Where one has no CPU the others spin, or
sleep and have to be woken: two processes of two threads each took three times as long on two CPUs as two of one thread.

What to do: as many threads in each process as there are CPUs for it: `torch.set_num_threads(N)` at its start, or
`OMP_NUM_THREADS=N` around the command. torchrun sets one thread where there are several processes; `mp.spawn` and
`mp.Process` do not.

When it is wrong: where the number of threads was changed after the model was first called. How much is gained cannot be
told from such a run, only the least of it. Another number of threads rounds sums in another order.

Sources: PyTorch, "Multiprocessing best practices" (CPU oversubscription); libgomp manual, GOMP_SPINCOUNT;
the pace of threads that wait for each other is that of `gputune/model/replay.py`.
"""

from collections.abc import Iterator

from gputune.core.figures import cpus_of
from gputune.core.finding import Finding
from gputune.features import Features, Machine
from gputune.model.crowding import Crowd, Narrower, crowd, for_these_workers
from gputune.model.prediction import Outlook, outlooks

CHECKLIST = ("loss computation",)


def advise(run: Features) -> Iterator[Finding]:
    found = crowd(run)
    if found is not None:
        yield _finding(found, run.machine)
        return
    for outlook in outlooks(run):
        if fewer := for_these_workers(outlook):
            yield _beside_workers(outlook, fewer)


def _beside_workers(outlook: Outlook, fewer: Narrower) -> Finding:
    """Say it of a step whose threads are as many as the CPUs, while workers compute on these as well."""
    threads, cpus = outlook.process.precision.threads or 1, outlook.run.machine.cpus
    workers = f"{outlook.now.workers} worker{'s' if outlook.now.workers > 1 else ''}"
    return Finding(
        id="oversubscribed-threads",
        says=(
            f"a step computes on {threads} threads beside {workers}, on {cpus_of(cpus)[0]}: while a worker "
            f"has one of their CPUs they stand, and a step takes {outlook.stepping * 1e3:.3g} ms"
        ),
        do=f"torch.set_num_threads({fewer.threads}), or OMP_NUM_THREADS={fewer.threads} around the command",
        share_lost=1 - 1 / fewer.gain.likely,
        speedup=fewer.gain,
        basis=(
            "DataLoader replayed with steps of so many threads, which take between as long as now and all of the CPU "
            "time of many"
        ),
        falsified_by=f"samples/s with OMP_NUM_THREADS={fewer.threads} below x{fewer.gain.low:.2f} of this run's",
        effect="changes-rounding",
        evidence={
            "threads": threads,
            "num_workers": outlook.now.workers,
            "cpus": cpus,
            "step_s": outlook.stepping,
            "step_cpu_s": outlook.step_cpu,
        },
        where=outlook.loader.where,
        change={"threads": fewer.threads},
    )


def _finding(found: Crowd, machine: Machine) -> Finding:
    cpus = f"{machine.cpus:g} CPU{'' if machine.cpus == 1 else 's'}"
    return Finding(
        id="oversubscribed-threads",
        says=(
            f"{_whose(found)} on the {cpus} of this job: they wait for each other, and the training for a CPU "
            f"{found.queued:.0%} of its time"
        ),
        do=f"torch.set_num_threads({found.fits}){_in_each(found)}, or OMP_NUM_THREADS={found.fits} around the command",
        share_lost=1 - 1 / found.gain.likely,
        speedup=found.gain,
        basis=(
            "threads that wait for each other, at the pace that their share of the CPUs leaves them; what they burn or "
            "sleep beyond that does not show"
        ),
        falsified_by=f"samples/s with OMP_NUM_THREADS={found.fits} below x{found.gain.low:.2f} of this run's",
        effect="changes-rounding",
        evidence={
            "threads": found.threads,
            "processes": len(found.processes),
            "cpus": machine.cpus,
            "queued": found.queued,
            "cores": sum(process.cpu or 0.0 for process in found.processes),
        },
        change={"threads": found.fits},
    )


def _whose(found: Crowd) -> str:
    if len(found.processes) == 1:
        return f"torch computes with {found.threads} threads"
    return f"{len(found.processes)} training processes compute with {found.threads} threads together"


def _in_each(found: Crowd) -> str:
    return "" if len(found.processes) == 1 else " at the start of each"
