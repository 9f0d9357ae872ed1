"""Memory creeps up: of the training process itself, or of the device.

What it sees: the process's own (anonymous) memory once a second, and on each device what tensors hold between two steps
(of a process that torch's allocator is not seen in: all memory in use), over the training loop. What the allocator
caches is no growth. Growth counts if it goes on in the later half of the run, with 95 % confidence, and only where it
reaches the end of the memory within a day; or where it has taken what a device's memory then ran out of.

Why it matters: the run dies hours from now, perhaps between two checkpoints; a device that is nearly full allocates
slowly before that.

What to do: look for what is kept from each step: a list of losses with their graphs (keep `loss.item()` or
`loss.detach()`), metrics that hold every prediction, caches without a bound, a hidden state that is not detached,
plots that are not closed.

When it is wrong: when what grows has a bound that was not reached: a deque of replays, longer and longer sequences (an
array that was made at once and is filled bit by bit is none: its memory was asked for when it was made), a dataset that
keeps what it has read (so nothing is said of growth that would outlast the first epoch, until it has gone
on for as long after it), or a heap that settles: of a training with workers growth counts after its 128th batch.

Sources: PyTorch documentation, "Frequently Asked Questions: My model reports CUDA out of memory", on accumulated
history; TraceML confirms creep at +1 GiB.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from gputune.core.figures import about, duration, size
from gputune.core.finding import NO_CHANGE, TODAY, Finding
from gputune.features import Device, Features, OutOfMemory, Process, Trend
from gputune.model.headroom import due, fits, grows, killed, left
from gputune.verdict import exhaustion


@dataclass(frozen=True, slots=True)
class Growth:
    """What grows, in whose loop, and how it ends: in `when` s at the latest the `room` that is left is taken."""

    what: str
    trend: Trend
    process: Process
    limit: int
    room: int
    when: float
    over: str = ""  # how the run ended, for want of it
    by_step: bool = False  # the trend is over steps


def advise(run: Features) -> Iterator[Finding]:
    for growth in (*_host(run), *_devices(run)):
        if growth.when <= TODAY:
            yield _finding(growth)


def _host(run: Features) -> Iterator[Growth]:
    """Yield the growth of the training processes together, told of the one that grows most."""
    found = left(run.machine)
    if found is None:
        return
    limit, room = found
    creeping = [p for p in run.processes if grows(p.memory) and not fits(p, room)]
    growing = [(p.memory.rate, p.memory, p) for p in creeping if p.memory is not None]
    if growing:
        _, trend, worst = max(growing, key=lambda each: each[0])
        when = due(worst, room, [each[1] for each in growing])
        if when is not None:
            yield Growth(
                "the training process's own memory",
                trend,
                worst,
                limit,
                room,
                when,
                over="the run was killed" if killed(run) else "",
            )


def _devices(run: Features) -> Iterator[Growth]:
    taken = {found.gpu: found for found in run.out_of_memory if _took_all(run, found)}
    for found in taken.values():
        process = next((p for p in run.processes if p.pid == found.pid), None)
        if process is not None and found.growth is not None:
            end, limit = "the run ended for want of memory", found.total or found.reserved + found.free
            what = f"what tensors hold of GPU {found.gpu}"
            yield Growth(what, found.growth, process, limit, found.free, 0.0, end, by_step=True)
    for device in run.devices:
        if device.index not in taken:
            yield from _device(run, device)


def _took_all(run: Features, found: OutOfMemory) -> bool:
    return exhaustion.ended(run, found) and exhaustion.growth(found) is not None


def _device(run: Features, device: Device) -> Iterator[Growth]:
    """Yield the growth of what tensors hold of a device, of the process where it grows most; else of what is in use."""
    limit = device.memory_total
    pools = [(pool, process) for process in run.processes for pool in process.allocators if pool.index == device.index]
    live = [(pool.live, process) for pool, process in pools if pool.live is not None and grows(pool.live)]
    busiest = max(run.processes, key=lambda p: p.batches, default=None)
    if not pools and busiest is not None and device.memory is not None and grows(device.memory):
        live = [(device.memory, busiest)]
    used = device.memory_used if device.memory is None else device.memory.last
    if not live or not limit or used is None:
        return
    cached = sum(max(0, pool.reserved - pool.peak) for pool, _ in pools)
    room = max(0, limit - round(used) + cached)
    trend, process = max(live, key=lambda each: each[0].rate)
    when = due(process, room, [trend for trend, _ in live], on_device=bool(pools))
    if when is not None:
        what = f"what tensors hold of GPU {device.index}" if pools else f"the memory of GPU {device.index}"
        yield Growth(f"{what} ({device.name})", trend, process, limit, room, when)


def _finding(growth: Growth) -> Finding:
    trend = growth.trend
    pace, took = _pace(growth)
    end = growth.over or f"full in {about(growth.when)} at the latest, if it goes on"
    return Finding(
        id="memory-growth",
        says=(
            f"{growth.what} grew from {size(trend.first)} to {size(trend.last)} in {took}, by {pace}, "
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
        evidence=_evidence(growth),
    )


def _pace(growth: Growth) -> tuple[str, str]:
    """Return the pace of a growth, and in what it was seen, in words."""
    trend, process = growth.trend, growth.process
    if growth.by_step:
        return f"{size(trend.rate)} a step", f"{trend.seconds:.0f} steps"
    steps = process.steps
    pace = f"{size(trend.rate * process.loop / steps)} a step" if steps else f"{size(trend.rate)}/s"
    return pace, duration(trend.seconds)


def _evidence(growth: Growth) -> dict[str, float]:
    trend = growth.trend
    told = {"grown_bytes": trend.last - trend.first, "left_bytes": growth.room}
    if growth.by_step:
        pace = {"growth_bytes_per_step": trend.rate, "growth_low_bytes_per_step": trend.low}
        return {**pace, "growth_high_bytes_per_step": trend.high, "steps": trend.seconds, **told}
    pace = {"growth_bytes_per_s": trend.rate, "growth_low_bytes_per_s": trend.low}
    return {**pace, "growth_high_bytes_per_s": trend.high, "seconds": trend.seconds, **told}
