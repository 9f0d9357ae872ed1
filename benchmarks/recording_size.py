"""What a recording costs: bytes an hour and a batch, CPU a row, memory, and the time of a roll and of a close.

An hour is made up as it would be measured: 40 columns at 10 Hz (cores and shares that jitter, watts, clocks in steps,
bytes that move now and then, counters, six slow ones) and 50 batches a second, each with its fetch and optimizer step,
whose times vary by 10 %. Clocks are the made-up ones; CPU, memory and bytes are real.
"""

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from common import Figure, emit, figure

from gputune import recording
from gputune.core.events import Event, Kind, Record
from gputune.core.sample import Guest, Metric, Reading, Sample

HZ = 10
STEP = 0.020  # s a batch
START = 1_000_000_000_000


def metric(name: str, unit: str, kind: str = "gauge") -> Metric:
    """Return a metric as probes declare them."""
    return Metric(
        name, unit, "what it is and what it is not, in one sentence", kind="counter" if kind == "counter" else "gauge"
    )


BUSY = [metric(f"cpu.{name}", "cores") for name in ("busy", "job", "others", "main", "workers", "rest")]
CORES = [metric(f"cpu.core{i}", "ratio") for i in range(8)]
CARD = [
    metric("gpu.busy", "ratio"),
    metric("gpu.power", "W"),
    metric("gpu.clock.sm", "Hz"),
    metric("gpu.temperature", "degC"),
]
BYTES = [metric(f"memory.{name}", "B") for name in ("available", "job", "swap", "shm", "gpu")]
COUNTERS = [metric(f"count.{i}", "B", "counter") for i in range(8)]
STILL = [metric(f"still.{i}", "1") for i in range(3)]
SLOW = [metric(f"slow.{i}", "B") for i in range(6)]


def ticks(seconds: int, chance: random.Random) -> Iterator[tuple[int, list[Reading]]]:
    """Yield (ns, readings) of each tick."""
    counts = [0] * len(COUNTERS)
    memory = [40e9] * len(BYTES)
    for tick in range(seconds * HZ):
        t = START + tick * 1_000_000_000 // HZ + int(chance.gauss(60_000, 15_000))
        found: list[Reading] = [Sample(m, t, max(0.0, chance.gauss(4, 0.5))) for m in BUSY]
        found += [Sample(m, t, min(1.0, max(0.0, chance.gauss(0.6, 0.2)))) for m in CORES]
        values = (
            chance.randrange(35, 60) / 100,
            round(chance.gauss(420, 25), 3),
            1e6 * 15 * chance.randrange(115, 133),
            chance.randrange(58, 62),
        )
        found += [Sample(m, t, v) for m, v in zip(CARD, values, strict=True)]
        for place, m in enumerate(BYTES):
            memory[place] += 4096 * chance.randrange(-500, 500) * (chance.random() < 0.3)
            found.append(Sample(m, t, memory[place]))
        for place, m in enumerate(COUNTERS):
            counts[place] += int(chance.expovariate(1 / 2e6)) if place < 4 else chance.randrange(3)
            found.append(Sample(m, t, counts[place]))
        found += [Sample(m, t, 8.0) for m in STILL]
        if tick % (HZ * 2) == 0:
            found += [Sample(m, t, 4096 * chance.randrange(10**6)) for m in SLOW]
        yield t, found


def batches(chance: random.Random) -> Iterator[Event]:
    """Yield the records of one batch after another: its fetch in a worker, its next(), its optimizer step."""
    t, index = START, 0
    while True:
        wait = int(1e9 * max(0.0001, chance.gauss(0.4, 0.06) * STEP))
        step = int(1e9 * max(0.0001, chance.gauss(0.6, 0.06) * STEP))
        made = int(1e9 * max(0.001, chance.gauss(4, 0.4) * STEP))
        cpu = int(made * chance.gauss(0.9, 0.02))
        yield Event(1 + index % 4, Record(Kind.FETCH, 0, t - made, t, cpu, made - cpu, made // 20, 602_112, 64))
        yield Event(0, Record(Kind.BATCH, 0, t, t + wait, 1, index, chance.randrange(3), 0, 64))
        t += wait + step
        yield Event(0, Record(Kind.STEP, 0, t - step // 10, t, 1, 0, 0, 0, 0))
        index += 1


def record(folder: Path, seconds: int, *, columns: bool, events: bool) -> dict[str, list[float]]:
    """Make a recording; return the CPU seconds of its beats and of what took longest."""
    chance = random.Random(1)
    run = recording.Recording.create(folder, {"command": ["train"]})
    run.take(
        [
            Guest(0, 10, 1, START, 0, "main", "ring"),
            *(Guest(i, 10 + i, 10, START, 0, "worker", "ring") for i in range(1, 5)),
        ]
    )
    stream = batches(chance)
    ahead = next(stream)
    cost: dict[str, list[float]] = {"beat": [], "close": [], "longest": [0.0]}
    for tick, (t, readings) in enumerate(ticks(seconds, chance)):
        mine = readings if columns else readings[:1]
        while events and ahead.record.t1 <= t:
            mine.append(ahead)
            ahead = next(stream)
        run.take(mine)  # one append; the work is in the beat
        if tick % HZ == HZ - 1:
            began, worked = time.perf_counter(), time.thread_time()
            run.beat(time.monotonic_ns() + tick * 1_000_000_000)
            cost["beat"].append(time.thread_time() - worked)
            cost["longest"][0] = max(cost["longest"][0], time.perf_counter() - began)
    cost["memory"] = [resident()]
    began = time.perf_counter()
    run.close()
    cost["close"].append(time.perf_counter() - began)
    assert not run.broken, run.broken
    return cost


def sizes(folder: Path) -> dict[str, int]:
    """Return bytes on the disk by table."""
    return {table.name: sum(f.stat().st_size for f in table.iterdir()) for table in folder.iterdir() if table.is_dir()}


def resident() -> float:
    """Return the memory this process holds, in MB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def exact(name: str, unit: str, value: float, budget: float | None = None, note: str = "") -> Figure:
    """Return a figure that is the same every time."""
    return Figure(name, unit, value, value, value, budget, note)


def main() -> None:
    """Measure and print."""
    before = resident()
    recording.lean()
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 3600
    with tempfile.TemporaryDirectory() as root:
        both = record(Path(root, "both"), seconds, columns=True, events=True)
        memory = both["memory"][0] - before
        cost = record(Path(root, "columns"), seconds, columns=True, events=False)
        hour = sizes(Path(root, "columns"))["samples"] * 3600 / seconds
        rows = [beat / HZ for beat in cost["beat"]]
        record(Path(root, "events"), seconds, columns=False, events=True)
        found = sizes(Path(root, "events"))
        closing = [record(Path(root, f"short{i}"), 5, columns=True, events=True)["close"][0] for i in range(15)]
    count = seconds / STEP
    emit(
        [
            exact("recording, 40 columns at 10 Hz, an hour", "MB", hour / 1e6, 2.0),
            exact("recording, a batch", "B", found["batches"] / count, 2.0, "its row in `batches`"),
            exact(
                "recording, a batch and all it leaves",
                "B",
                sum(found[t] for t in ("batches", "fetches", "steps")) / count,
                None,
                "with its fetch and its optimizer step",
            ),
            figure("recording, CPU a row of 40 columns", "s", rows, 5e-6),
            figure("recording, longest beat (a roll)", "s", both["longest"], None, "once a segment"),
            figure("recording, close of a run of 5 s", "s", closing, 0.030),
            exact("recording, memory added to a recorder", "MB", memory, None, "with pyarrow"),
        ]
    )
    print(f"median beat {statistics.median(both['beat']) * 1e6:.0f} µs, tables {found}", file=sys.stderr)


if __name__ == "__main__":
    main()
