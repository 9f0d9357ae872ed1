"""The device is underused and its memory empty, and the loader is not to blame: the batch is small.

What it sees: on a host without a device, batches of four samples or fewer, and what every step takes whatever its
batch: the time from the end of the backward pass to the end of the optimizer's step, and the looks at who holds the
interpreter that met torch's own Python elsewhere, its calls of modules and functions. Else: the busy share of the
device over the loop, the most memory ever used on it, and that neither loader waits nor checkpoints, logging or
evaluation explain the rest. Where torch's allocator is seen, memory that it has only cached does not count as used, and
what is live before the first step is taken not to grow with the batch.

Why it matters: each step has a cost that does not depend on the batch (launches, Python, the optimizer); with a
larger batch it is paid less often.

What to do: raise `batch_size` to the number named, scale the learning rate with it, then look at `num_workers` again.

When it is wrong: when the idle time is a synchronisation or other work of the loop that grows with the batch as well.
Copies of batches and the time for making and pinning them are taken to grow.

Sources: Goyal et al., "Accurate, Large Minibatch SGD", 2017 (learning rate); predicted by `gputune/model/enlarging.py`:
Amdahl's law for a device that works behind the host.
"""

from collections.abc import Iterator
from dataclasses import replace

from gputune.core.events import STOPPING
from gputune.core.figures import TINY, mean, wilson
from gputune.core.finding import UNUSED, Finding, Speedup
from gputune.features import Device, Features, Loader, Process
from gputune.model.enlarging import Turn, copies, made, turn
from gputune.model.headroom import times_fit, used_at_most
from gputune.model.minimum_samples import LEAST_LOOKS, settled
from gputune.model.prediction import ERROR, interval, unsteady
from gputune.model.workload import device_share, for_others

CHECKLIST = ("1.7",)

UNDERUSED = 0.7  # busy share: above it, a larger batch buys less than a tenth
OVERHEAD = 0.3  # of the loop in steps while the device idles: UNDERUSED, said of the loop
ROOM = 0.8  # of the memory to be used at most, a margin for fragmentation and longer samples
MOST = 16  # times the batch: beyond it, learning changes too much to advise it from here
WORTHWHILE = 0.8  # of what an endless batch would buy is enough
EASILY = 0.5  # of a step to make a batch in: such a loader is never late
LITTLE = 0.08  # of the loop before the model, or after the optimizer: less is what any loop has there, once a batch
LEAST_FILLED = 1 / 132  # one multiprocessor of the largest devices: no kernel keeps less busy
PAUSES = (*STOPPING, "collective")
FEW = 4  # samples: a batch of more is chosen for what it learns, one of fewer is what once fitted
UPDATING = 0.25  # of the loop, in what any batch takes: less brings under x1.25 with four times the batch
TIMES = 4  # the batch that is advised on a host


def advise(run: Features) -> Iterator[Finding]:
    for process, loader in ((p, x) for p in run.processes for x in p.loaders if x.training and x.batch_size):
        if _is_of_few(process, loader):
            yield _of_few(run, process, loader)
        used = [d for d in run.devices if d.busy is not None and d.memory_used is not None and d.memory_total]
        if len(used) != len(run.devices) or not used or not settled(process):
            continue
        device = max(used, key=lambda d: d.busy or 0.0)
        fits = min(MOST, times_fit(run, device, ROOM))
        elsewhere = _elsewhere(run, process, loader)
        busy = device_share(run, process) or 0.0
        explained = elsewhere + copies(process)[0] / max(TINY, process.loop)
        overhead = 1 - busy - explained  # waits, pauses and copies must not explain more of the idle time
        if UNUSED <= busy < UNDERUSED and fits >= 2 and overhead > max(OVERHEAD, explained):
            full = used_at_most(run, device) / (device.memory_total or 1)
            now = turn(process, loader, busy, elsewhere, _filled(device))
            yield _finding(process, loader, now, (device.index, busy, full), fits)


def _is_of_few(process: Process, loader: Loader) -> bool:
    """Return whether a host spends much of the loop on what any batch takes, for the sake of very few samples."""
    few = process.on_host and (loader.batch_size or 0) <= FEW and settled(process) and process.loop > 0
    calls = process.in_torch if process.held_looks >= LEAST_LOOKS else 0.0
    return few and _on_weights(process) + calls >= UPDATING


def _on_weights(process: Process) -> float:
    """Return the share of the loop from the end of the backward pass to that of the optimizer's step."""
    return process.optimizing / process.loop


def _in_torch(process: Process) -> float:
    """Return the share of the loop that torch's own Python surely takes, but for the optimizer's: to make calls."""
    return wilson(process.in_torch, process.held_looks)[0] if process.held_looks >= LEAST_LOOKS else 0.0


def _of_few(run: Features, process: Process, loader: Loader) -> Finding:
    weights, calls = _on_weights(process), _in_torch(process)
    share, batch = weights + calls, (loader.batch_size or 1) * TIMES
    gain = interval(1 / (1 - share + share / TIMES), ERROR, unsteady(run))
    more = f", and {calls:.0%} at the least on calling modules and functions of torch" if calls else ""
    return Finding(
        id="small-batch",
        says=(
            f"{weights:.0%} of the loop is spent on the weights, from the end of the backward pass to that of the "
            f"optimizer's step{more}: that is the same for any batch, and here it is for batch_size={loader.batch_size}"
        ),
        do=f"set batch_size={batch} and scale the learning rate with it, or add up the gradients of {TIMES} batches"
        if weights >= calls  # the calls are made for each of these batches
        else f"set batch_size={batch} and scale the learning rate with it",
        share_lost=1 - 1 / gain.likely,
        speedup=replace(gain, high=max(gain.high, float(TIMES))),
        basis=f"that time once for {TIMES} batches; at the high end all of a step takes as long for any batch",
        falsified_by=f"samples/s with batch_size={batch} below x{gain.low:.2f} of this run's",
        effect="changes-learning",
        evidence={
            "optimizing": weights,
            "in_torch": calls,
            "batch_size": loader.batch_size or 0,
            "step_s": process.loop / process.steps,
        },
        where=loader.where,
        change={"batch_size": batch},
    )


def _filled(device: Device) -> float:
    """Return the share of the device that a kernel keeps busy: 1 where no counter tells."""
    if device.sm_active is None or not device.busy:
        return 1.0
    return min(1.0, max(LEAST_FILLED, device.sm_active / device.busy))


def _elsewhere(run: Features, process: Process, loader: Loader) -> float:
    """Return the share of the loop that grows with the samples, but is no work of the device.

    Waits count if the loader can hardly keep up; if it easily can, they are what handing over a batch costs, and that
    is paid once a batch like the rest of the step. What it stands for ranks that come later is their loader's, or their
    work, and no room for a larger batch.
    """
    if not process.loop:
        return 1.0
    easily = bool(loader.num_workers) and made(loader) < EASILY * mean(loader.steps)
    spans = PAUSES if easily else (*PAUSES, "loader.wait")
    beside = [mean(part) * process.batches for part in (process.before_forward, process.after_step)]
    own = sum(seconds for seconds in beside if seconds >= LITTLE * process.loop)  # launches too: of each sample, maybe
    others = for_others(run, process) * process.batches
    return (sum(process.in_loop.get(s, 0.0) for s in spans) + own + others) / process.loop


def _finding(process: Process, loader: Loader, now: Turn, seen: tuple[str, float, float], fits: int) -> Finding:
    index, busy, full = seen
    times = 2
    while times * 2 <= fits and now.gain(times) < WORTHWHILE * now.most:
        times *= 2
    low, likely, high = now.bounds(times)
    batch = (loader.batch_size or 1) * times
    return Finding(
        id="small-batch",
        says=(
            f"GPU {index} is busy {busy:.0%} of the time and {full:.0%} of its memory is used, "
            f"and neither data nor pauses explain it: batch_size={loader.batch_size} is small for it"
        ),
        do=f"set batch_size={batch} and scale the learning rate with it, then look at num_workers again",
        share_lost=1 - 1 / likely,
        speedup=Speedup(low=low, likely=likely, high=high),
        basis=(
            "the device's part of a step grows with the batch, the rest is paid once a step; what the training does "
            f"not wait for now runs beside it{', as far as these workers make samples' if now.making else ''}"
        ),
        falsified_by="a step with the larger batch that takes longer in proportion",
        effect="changes-learning",
        evidence={
            "busy": busy,
            "memory_used": full,
            "filled": now.filled,
            "batch_size": loader.batch_size or 0,
            "step_s": process.loop / max(1, process.batches),
        },
        where=loader.where,
        change={"batch_size": batch},
    )
