"""Memory creeps up: of the training process itself, or of the device.

What it sees: the process's own (anonymous) memory once a second, and the memory in use on each device, over the
training loop. Growth counts if it goes on in the later half of the run, with 95 % confidence, and only where it reaches
the end of the memory within a day.

Why it matters: the run dies hours from now, perhaps between two checkpoints; a device that is nearly full allocates
slowly before that.

What to do: look for what is kept from each step: a list of losses with their graphs (keep `loss.item()` or
`loss.detach()`), metrics that hold every prediction, caches without a bound, a hidden state that is not detached,
plots that are not closed.

When it is wrong: when what grows has a bound that was not reached: a replay buffer, longer and longer sequences, a
dataset that keeps what it has read (so nothing is said of growth that would outlast the first epoch, until it has gone
on for as long after it), or a heap that settles: of a training with workers growth counts after its 128th batch.

Sources: PyTorch documentation, "Frequently Asked Questions: My model reports CUDA out of memory", on accumulated
history; TraceML confirms creep at +1 GiB.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gputune.features import Features, Process, Trend
from gputune.figures import about, duration, size
from gputune.finding import NO_CHANGE, TODAY, Finding
from gputune.headroom import due, grows, killed, left


@dataclass(frozen=True, slots=True)
class Growth:
    """What grows, in whose loop, and how it ends: in `when` s at the latest the `room` that is left is taken.

    `over`: the kernel has killed the run for want of it.
    """

    what: str
    trend: Trend
    process: Process
    limit: int
    room: int
    when: float
    over: bool = False


def advise(run: Features) -> Iterator[Finding]:
    for growth in (*_host(run), *_devices(run)):
        if growth.when <= TODAY:
            yield _finding(growth)


def _host(run: Features) -> Iterator[Growth]:
    """Yield the growth of the training processes together, told of the one that grows most."""
    found = left(run.machine)
    growing = [(p.memory.rate, p.memory, p) for p in run.processes if p.memory is not None and grows(p.memory)]
    if found is not None and growing:
        limit, room = found
        _, trend, worst = max(growing, key=lambda each: each[0])
        when = due(worst, room, [each[1] for each in growing])
        if when is not None:
            yield Growth("the training process's own memory", trend, worst, limit, room, when, over=killed(run))


def _devices(run: Features) -> Iterator[Growth]:
    process = max(run.processes, key=lambda p: p.batches, default=None)
    for device in run.devices:
        trend, limit = device.memory, device.memory_total
        if process is None or trend is None or not limit or not grows(trend):
            continue
        room = max(0, limit - round(trend.last))
        when = due(process, room, [trend])
        if when is not None:
            yield Growth(f"the memory of GPU {device.index} ({device.name})", trend, process, limit, room, when)


def _finding(growth: Growth) -> Finding:
    trend, process = growth.trend, growth.process
    steps = process.batches or process.optimizer_steps
    by = f"{size(trend.rate * process.loop / steps)} a step" if steps else f"{size(trend.rate)}/s"
    end = "the run was killed" if growth.over else f"full in {about(growth.when)} at the latest, if it goes on"
    return Finding(
        id="memory-growth",
        says=(
            f"{growth.what} grew from {size(trend.first)} to {size(trend.last)} in {duration(trend.seconds)}, by {by}, "
            "and did not level off"
        ),
        risk=f"{size(growth.room)} are left of {size(growth.limit)}: {end}",
        due=0.0 if growth.over else growth.when,
        do="keep numbers (`loss.item()`, `.detach()`) and not tensors with their graphs; bound caches and lists",
        share_lost=0.0,
        speedup=NO_CHANGE,
        basis="the slope of the later half of the run (Theil-Sen, 95 %), against what is left",
        falsified_by="a level that stays over another epoch",
        effect="identical",
        evidence={
            "growth_bytes_per_s": trend.rate,
            "growth_low_bytes_per_s": trend.low,
            "growth_high_bytes_per_s": trend.high,
            "grown_bytes": trend.last - trend.first,
            "seconds": trend.seconds,
            "left_bytes": growth.room,
        },
    )
