"""What a long run costs its reader: a week at 10 Hz with 8 devices and 30 million batches, made up.

Its segments are Parquet as the recorder's own keeper writes them, each as long as 8 MiB of frames last: a row every
tenth of a second, of 8 devices with all that NVML and its performance counters tell twice a second, and of the machine
once; five batches in it, each with its fetch and its optimizer step. Readings jitter, so that files are as large as
real ones; the same few segments come again and again, with the clock moved on. What is measured runs in processes of
its own.
"""

import argparse
import functools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from common import Figure, emit

from gputune import __version__
from gputune.core.events import Kind
from gputune.core.sample import Metric
from gputune.features import Device, Features, Machine, Process
from gputune.recording import cells, keeping, parquet, records, tables
from gputune.recording.encoding import declaration
from gputune.verdict.building import Overhead, build, to_json

HZ, NS, US = 10, 1_000_000_000, 1_000_000
WEEK = 7 * 86400  # s
BATCHES = 30_000_000 / WEEK  # a second
DEVICES = 8
SEGMENT = 8 << 20  # B of frames: a value takes 10 in them, a record 80
START = 1_000 * NS  # of the monotonic clock
CLOCKS = 1_795_000_000 * NS  # from it to Unix time
KINDS = 4  # segments that differ; after them the first comes again

GPU = {
    "busy": "ratio", "memory.used": "B", "memory.total": "B", "clock.sm": "Hz", "clock.sm.max": "Hz", "power": "W",
    "power.limit": "W", "power.limit.default": "W", "temperature": "degC", "throttle": "1", "sm.active": "ratio",
    "tensor.active": "ratio", "dram.active": "ratio", "pcie.gen": "1", "pcie.width": "1", "pcie.rx": "B/s",
    "pcie.tx": "B/s", "job.busy": "ratio", "job.memory": "B", "others.busy": "ratio", "others.memory": "B",
}  # fmt: skip
MACHINE = {
    "cpu.allowed": "cores", "cpu.busy": "cores", "cpu.job": "cores", "cpu.main": "cores", "cpu.workers": "cores",
    "cpu.rest": "cores", "cpu.others": "cores", "cpu.iowait": "ratio", "memory.available": "B", "memory.job": "B",
    "shm.free": "B", "workers.running": "ratio", "workers.blocked": "ratio", "main.blocked": "ratio",
    "job.threads": "1", "loader.wait": "ratio",
}  # fmt: skip
COUNTERS = {
    "disk.read": "B", "disk.write": "B", "net.received": "B", "net.sent": "B", "job.read": "B", "job.written": "B",
    "pressure.cpu": "us", "pressure.io": "us", "pressure.memory": "us", "loader.batches": "1", "loader.samples": "1",
}  # fmt: skip
CORES = 64  # of the machine: their shares are columns too

# What a page about a run draws.
DRAWN = (
    "gpu.busy", "gpu.sm.active", "gpu.memory.used", "gpu.power", "loader.wait", "loader.samples", "batches.ready",
    "cpu.main", "cpu.workers", "cpu.rest", "disk.read", "disk.write", "net.received", "net.sent", "pressure.cpu",
    "pressure.io", "pressure.memory", "spans.seconds/s[checkpoint]",
)  # fmt: skip
POINTS = 1000


class Columns:
    """The columns of `samples`: name to declaration, and to a value that jitters."""

    def __init__(self) -> None:
        said = "what it is and what it is not, in one sentence"
        gauges = [(f"gpu.{n}", u, "gpu", str(i)) for i in range(DEVICES) for n, u in GPU.items()]
        gauges += [(n, u, "", "") for n, u in MACHINE.items()]
        gauges += [("cpu.core", "ratio", "cpu", str(i)) for i in range(CORES)]
        self.metrics = [(Metric(n, u, said, per=per), i) for n, u, per, i in gauges]
        self.metrics += [(Metric(n, u, said, kind="counter"), "") for n, u in COUNTERS.items()]
        self.known = {tables.column_name(declaration(m, i)): declaration(m, i) for m, i in self.metrics}


def samples(columns: Columns, first: int, rows: int, chance: random.Random) -> pa.Table:
    """Return the samples of one segment; `first` is its first tick."""
    times = [(START + CLOCKS + (first + n) * NS // HZ) // 1000 + chance.randrange(60, 120) for n in range(rows)]
    arrays = [pa.array(times, pa.int64()).cast(tables.US)]
    for metric, _ in columns.metrics:
        beat = 5 if metric.per == "gpu" else 10
        if metric.kind == "counter":
            grown = [(first + n) * 1000 + chance.randrange(900) if n % beat == 0 else None for n in range(rows)]
            arrays.append(pa.array(grown, pa.int64()))
        else:
            read = [chance.gauss(0.6, 0.1) if n % beat == 0 else None for n in range(rows)]
            arrays.append(tables.rounded(pa.array(read, pa.float32())))
    return pa.Table.from_arrays(arrays, names=["time", *columns.known])


def events(first: int, rows: int, chance: random.Random) -> dict[str, pa.Table]:
    """Return the tables of records of one segment: batches, with their fetches and steps, and now and then a span."""
    found: list[tuple[int, ...]] = []
    step = round(NS / BATCHES)
    t, end = START + first * NS // HZ, START + (first + rows) * NS // HZ
    while t < end:
        wait, took, made = (round(step * chance.uniform(*share)) for share in ((0.2, 0.6), (0.8, 1.2), (3, 4)))
        found += [
            (1 + len(found) // 3 % 4, Kind.FETCH, 0, t - made, t, made // 2, made // 3, made // 9, 602_112, 64),
            (0, Kind.BATCH, 0, t, t + wait, 1, len(found) // 3, chance.randrange(3), 0, 64),
            (0, Kind.STEP, 0, t + took - 1000, t + took - 1000, 1, 0, 0, 0, 0),
        ]
        t += took
    found.append((0, Kind.SPAN, 5, end - 3 * NS, end - NS, 1, 1 << 30, 0, 0, 0))
    columns = [pa.array(column, pa.int64()) for column in zip(*found, strict=True)]
    table = pa.Table.from_arrays(columns, schema=records.RAW)
    return records.split(table, records.grid(table), CLOCKS)


def write(folder: Path, seconds: int) -> int:
    """Write the run; return how many segments it has."""
    chance = random.Random(1)
    columns = Columns()
    tick = 8 + 10 * sum(1 / (5 if m.per == "gpu" else 10) for m, _ in columns.metrics) + 3 * 80 * BATCHES / HZ
    rows = int(SEGMENT / tick)
    firsts = list(range(0, seconds * HZ, rows))
    made = [
        {"samples": samples(columns, first, rows, chance), **events(first, rows, chance)} for first in firsts[:KINDS]
    ]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        writes = functools.partial(segment, folder, columns, made, rows)
        list(pool.map(writes, range(len(firsts)), chunksize=16))
    return len(firsts)


def segment(folder: Path, columns: "Columns", made: list[dict[str, pa.Table]], rows: int, number: int) -> None:
    """Write one segment: one of those that were made, with its clock moved on."""
    kind = number % KINDS
    ahead = (number - kind) * rows * NS // HZ // 1000
    for name, table in made[kind].items():
        if len(table):
            put(folder / name / f"{number + 1:05d}.parquet", moved(name, table, ahead), columns)


def moved(name: str, table: pa.Table, us: int) -> pa.Table:
    """Return a table with its clock (and what else counts on) moved on."""
    kind = table.schema.field("time").type
    time_ = pc.add(table["time"].cast(pa.int64()), us // (1000 if kind.unit == "ms" else 1)).cast(kind)
    table = table.set_column(0, table.schema.field("time"), time_)
    for place, field in enumerate(table.schema):
        if name == "samples" and field.type == pa.int64():
            table = table.set_column(place, field, pc.add(table[field.name], us // 1000 * HZ // 1000 * 1000))
    return table


def put(file: Path, table: pa.Table, columns: Columns) -> None:
    """Write one part as the keeper does."""
    if file.parent.name == "samples":
        table = table.replace_schema_metadata(keeping.metadata(columns.known))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(parquet.encode(table))
    if file.parent.name == "samples":
        beside = file.parent.with_name("cells") / file.name
        beside.parent.mkdir(exist_ok=True)
        beside.write_bytes(parquet.encode(cells.made(table, columns.known, (START + CLOCKS) // 1000)))


def tell(folder: Path, seconds: int) -> None:
    """Write run.json and the verdict of such a run."""
    about = {
        "schema_version": 1, "gputune": __version__, "finished": True, "unix_minus_monotonic_ns": CLOCKS,
        "max_size": 1 << 40, "dropped": [], "command": ["python", "train.py"], "started": START,
        "ended": START + seconds * NS, "exit_code": 0, "processes": [], "workers": 4, "machine": [],
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(about))
    spans = {"step": 0.6 * seconds, "loader.wait": 0.4 * seconds}
    process = Process(
        pid=1, rank=None, wall=seconds, ledger=spans, inclusive=spans, in_loop=spans, loop=seconds,
        batches=int(BATCHES * seconds), samples=int(64 * BATCHES * seconds), optimizer_steps=int(BATCHES * seconds),
    )  # fmt: skip
    devices = tuple(Device(index=str(i), name="a card", busy=0.6) for i in range(DEVICES))
    run = Features(
        command=("python", "train.py"), wall=seconds, machine=Machine(cpus=CORES, cpus_seen=CORES),
        processes=(process,), devices=devices, exit_code=0,
    )  # fmt: skip
    (folder / "findings.json").write_bytes(to_json(build(run, [], overhead=Overhead())))


SERIES = """
import sys
from gputune import recording
recording.lean()
found = recording.series(sys.argv[1], sys.argv[3:], int(sys.argv[2]))
assert found.columns["gpu.busy[7]"].mean[-1] is not None
"""


# A process that is as small as can be: of who starts it, a process inherits how much memory was resident.
WATCHES = """
import os, sys, time
began = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, 1, 0)])
_, status, used = os.wait4(pid, 0)
print(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def timed(*command: str) -> tuple[float, float, float]:
    """Run a command; return the s until it was there, the s of CPU, and the MB that were resident."""
    watches = (sys.executable, "-S", "-c", WATCHES, *command)
    done = subprocess.run(watches, stdout=subprocess.PIPE, text=True, check=True)
    took, cpu, memory = map(float, done.stdout.split())
    return took, cpu, memory


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--folder", type=Path, help="keep the run here, or take the one that is there")
    parser.add_argument("--times", type=int, default=5)
    wanted = parser.parse_args()
    seconds = int(wanted.days * 86400)
    with tempfile.TemporaryDirectory() as root:
        folder = wanted.folder or Path(root, "run")
        if not (folder / "run.json").is_file():
            folder.mkdir(parents=True, exist_ok=True)
            print(write(folder, seconds), "segments", file=sys.stderr)
            tell(folder, seconds)
        span = f"{wanted.days:g} days"
        report = (sys.executable, "-m", "gputune", "report", str(folder))
        ways = {
            "report of {}, the kept verdict": (report, 1.0),
            "report --html of {}": ((*report, "--html", str(Path(root, "page.html"))), 5.0),
            "series of {}, what a page draws": ((sys.executable, "-c", SERIES, str(folder), str(POINTS), *DRAWN), 5.0),
        }
        for name, (command, budget) in ways.items():
            took, cpu, memory = zip(*(timed(*command) for _ in range(wanted.times)), strict=True)
            said = name.format(span)
            emit([of(said, "s", took, budget), of(f"{said}, CPU", "s", cpu, None)])
            emit([of(f"{said}, memory of the process", "MB", memory, 300.0)])


def of(name: str, unit: str, values: Sequence[float], budget: float | None) -> Figure:
    """Return the median of a few tries, and their range."""
    return Figure(name, unit, statistics.median(values), min(values), max(values), budget, f"of {len(values)} tries")


if __name__ == "__main__":
    main()
