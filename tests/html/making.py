"""Run folders to make pages of: a training that was recorded, and verdicts of every kind on it."""

import gzip
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from gputune import __version__
from gputune.core.events import Event, Kind, Record, SpanCode
from gputune.core.sample import Guest, Metric, Note, Reading, Sample, now
from gputune.features import Features
from gputune.recording import Recording
from gputune.verdict.building import build, to_json
from gputune.verdict.document import (
    Attached,
    DeviceLedgerRow,
    DeviceTotals,
    FindingRow,
    LackingRow,
    LedgerRow,
    LoaderRow,
    Overhead,
    ProcessRow,
    SpeedupRow,
    UnavailableRow,
    Verdict,
)
from gputune.verdict.document import to_json as packed_json
from gputune.verdict.judging import judge
from gputune.verdict.packed import Packed, ProcRow

RUNS = Path(__file__).parents[1] / "recordings"  # what real ones have shown
BEGAN = 10**12  # ns of the monotonic clock: any moment
MS, TICK = 1_000_000, 100_000_000
STEP = 50 * MS
LOADER = {
    "n": "loader", "id": 1, "where": "train.py:3", "num_workers": 1, "prefetch_factor": 2, "pin_memory": False,
    "persistent_workers": False, "batch_size": 16, "in_order": True, "iterable": False, "length": 10_000,
    "start_method": "fork",
}  # fmt: skip
SCRIPT = "import torch\n\nloader = DataLoader(\n    data, batch_size=16, num_workers=1, shuffle=True\n)\n"
GAUGES = (
    (Metric("gpu.busy", "ratio", "busy", per="gpu"), 0.4, "0"),
    (Metric("gpu.sm.active", "ratio", "active", per="gpu"), 0.3, "0"),
    (Metric("gpu.memory.used", "B", "used", per="gpu"), 2e10, "0"),
    (Metric("gpu.power", "W", "power", per="gpu"), 310.0, "0"),
    (Metric("cpu.main", "cores", "main"), 0.9, ""),
    (Metric("cpu.workers", "cores", "workers"), 0.7, ""),
    (Metric("memory.job", "B", "memory"), 4e9, ""),
)
COUNTERS = (
    (Metric("disk.read", "B", "read", kind="counter", per="disk"), 5e6, "sda"),
    (Metric("net.received", "B", "received", kind="counter", per="interface"), 2e6, "eth0"),
    (Metric("pressure.io", "us", "pressure", kind="counter"), 20_000, ""),
)


def readings(seconds: int, extra: Sequence[tuple[Metric, float, str]] = ()) -> Iterator[list[Reading]]:
    """Yield the ticks of a training that evaluates every ten seconds and saves its model every five.

    `extra` are more metrics with their values, which a counter grows by a second.
    """
    batch = 0
    for tick in range(seconds * 10):
        t = BEGAN + tick * TICK
        found: list[Reading] = [Sample(metric, t, value, which) for metric, value, which in GAUGES]
        found += [Sample(metric, t, tick * value / 10, which) for metric, value, which in COUNTERS]
        found += [Sample(m, t, tick * value / 10 if m.kind == "counter" else value, w) for m, value, w in extra]
        if not tick:
            found += [
                Guest(0, 4711, 1, BEGAN, 0, "main", "ring"),
                Note(0, {"n": "process", "python": "3.12.1", "torch": "2.7.0", "cuda": "12.6"}),
                Note(-1, {"n": "device", "index": "0", "name": "NVIDIA H200"}),
                Note(0, dict(LOADER)),
                Event(0, Record(Kind.ITERATOR, 0, BEGAN - 2 * MS, BEGAN - MS, 1, 1, 1, 1, 0)),
            ]
        for part in range(2):
            at = t + part * STEP
            found.append(Event(0, Record(Kind.BATCH, 0, at, at + 30 * MS, 1, batch, batch % 3, 0, 16)))
            found.append(Event(0, Record(Kind.STEP, 0, at + 40 * MS, at + 40 * MS, 1, 0, 0, 0, 0)))
            batch += 1
        for every, lasts, code in ((100, 2000 * MS, SpanCode.EVALUATION), (50, 300 * MS, SpanCode.CHECKPOINT)):
            if tick % every == every - 1:
                found.append(Event(0, Record(Kind.SPAN, code, t, t + lasts, 0, 0, 0, 0, 0)))
        yield found


def recorded(
    folder: Path,
    seconds: int = 30,
    *,
    ended: bool = True,
    extra: Sequence[tuple[Metric, float, str]] = (),
    **about: Any,
) -> Path:
    """Make the recording of that training; with `ended` it has ended well."""
    told = {"command": ["python", "train.py"], "started": BEGAN, "hz": 10.0, "cwd": "/home/me/project", **about}
    recording = Recording.create(folder, told, max_size=1 << 26)
    began = now()
    for number, tick in enumerate(readings(seconds, extra), 1):
        recording.take(tick)
        if not number % 10:
            recording.beat(began + number * TICK)
    if ended:
        recording.about(exit_code=0, ended=BEGAN + seconds * 10 * TICK, unavailable={"nvml": "no driver"})
        recording.close()
    return folder


def many_devices(folder: Path, devices: int) -> Path:
    """Make a recording of ten minutes of that many devices, whose readings are all different."""
    recording = Recording.create(folder, {"command": ["python"], "started": BEGAN}, max_size=1 << 28)
    metrics = [metric for metric, _, _ in GAUGES if metric.per == "gpu"]
    drawn = random.Random(1)
    began = now()
    for second in range(600):
        t = BEGAN + second * 10 * TICK
        recording.take([Sample(m, t, drawn.random() * 1e6, str(n)) for m in metrics for n in range(devices)])
        recording.beat(began + second * 10 * TICK)
    recording.about(exit_code=0, ended=BEGAN + 600 * 10 * TICK)
    recording.close()
    return folder


def finding(**changes: Any) -> FindingRow:
    """Return what a loader without enough workers is told, with the fields changed that a test is about."""
    facts = {
        "id": "few-workers",
        "severity": "high",
        "share_lost": 0.57,
        "speedup": SpeedupRow(low=1.9, likely=2.2, high=2.3),
        "says": "57% of the loop is spent waiting for batches",
        "do": "set num_workers=6",
        "where": "train.py:3",
        "change": {"num_workers": 6},
        "evidence": {"waiting": 0.57, "batch_s": 0.0716},
        "basis": "replay of the measured times",
        "falsified_by": "samples/s with num_workers=6 below 1,600",
        "effect": "same-order",
    }
    return FindingRow(**{**facts, **changes})


def process(**changes: Any) -> ProcessRow:
    """Return the training process."""
    facts = {
        "pid": 4711, "rank": None, "seen": True, "why": "", "wall_s": 30.0, "startup_s": 2.0, "loop_s": 28.0,
        "batches": 600, "optimizer_steps": 600, "samples_per_s": 320.0,
    }  # fmt: skip
    return ProcessRow(**{**facts, **changes})


def verdict(*findings: FindingRow, **changes: Any) -> Verdict:
    """Return a verdict on that training with these findings."""
    shares = {"loader.wait": 0.57, "step": 0.3, "startup": 0.066, "checkpoint": 0.04, "evaluation": 0.024}
    facts = {
        "command": ["python", "train.py"],
        "gputune": __version__,
        "exit_code": 0,
        "wall_s": 30.0,
        "samples_per_s": 320.0,
        "batches": 600,
        "device": DeviceTotals(name="NVIDIA H200", busy=0.41, count=1, coverage=1.0),
        "loaders": [
            LoaderRow(
                where="train.py:3", num_workers=1, prefetch_factor=2, pin_memory=False, persistent_workers=False,
                batch_size=16, batches=600, wait_s=17.1,
            )
        ],
        "ledger": [LedgerRow(span=name, seconds=30 * share, share=share) for name, share in shares.items()],
        "findings": list(findings),
        "overhead": Overhead(sampler_cpu_share=0.018, guest_us_per_batch=4.0),
        "unavailable": [],
        "startup_s": 2.0,
        "loop_s": 28.0,
        "processes": [process()],
    }  # fmt: skip
    return Verdict(**{**facts, **changes})


def of_a_run(name: str) -> Verdict:
    """Return the verdict on what a real run of the zoo has shown, as if its script were ours."""
    run = msgspec.json.decode(gzip.decompress((RUNS / f"{name}.json.gz").read_bytes()), type=Features)
    found = build(run, judge(run), overhead=Overhead())
    return msgspec.structs.replace(found, command=["python", "train.py"])


STEPPING = [LedgerRow(span="step", seconds=28.0, share=0.933), LedgerRow(span="startup", seconds=2.0, share=0.067)]
KINDS: dict[str, Verdict] = {
    "healthy": verdict(ledger=STEPPING),
    "loader": verdict(finding(), finding(id="low-prefetch", severity="low", change={"prefetch_factor": 8})),
    "storage": of_a_run("zoo-small-files-pickles"),
    "batches": of_a_run("zoo-heavy-collate-padding"),
    "in the loop": of_a_run("zoo-preprocessing-in-loop-augment"),
    "restarts": of_a_run("zoo-worker-restart-next-iter"),
    "copies": verdict(finding(id="unpinned-memory", severity="medium", change={"pin_memory": True})),
    "pauses": of_a_run("zoo-frequent-eval-loader"),
    "device": verdict(
        finding(id="device-throttled", change={}, risk="", effect="identical"),
        device_ledger=[
            DeviceLedgerRow(part="compute", seconds=9.0, share=0.32),
            DeviceLedgerRow(part="starved", seconds=19.0, share=0.68),
        ],
        unavailable=[
            UnavailableRow(probe="nvml", why="some", fields=[LackingRow(field="power", what="power", why="denied")])
        ],
    ),
    "offer": verdict(finding(id="room-to-share", severity="low", offer="three of it fit", change={}), ledger=STEPPING),
    "ranks": verdict(
        finding(id="straggling-rank", change={}, where=""),
        processes=[
            process(rank=n, pid=100 + n, world_size=3, host=f"node{n}", own_s=0.03 + n / 100, apart_s=0.02, rounds=99)
            for n in range(3)
        ],
    ),
    "exchange": of_a_run("zoo-communication-bound-wide"),
    "attached": verdict(
        attached=Attached(stacks=1220, looks=20),
        exit_code=None,
        ledger=[
            LedgerRow(span="loader.wait", seconds=17.4, share=0.58, margin=0.04),
            LedgerRow(span="step", seconds=12.6, share=0.42, margin=0.04),
        ],
    ),
    "abstained": verdict(abstained="only 12 batches were seen", batches=12),
    "no training": verdict(ledger=[], processes=[], loaders=[], batches=0, samples_per_s=None),
    "perhaps": verdict(perhaps=[finding(id="host-bound", do="try torch.compile", change={})]),
}


def judged(folder: Path, found: Verdict) -> Path:
    """Leave a verdict in a run folder."""
    (folder / "findings.json").write_bytes(to_json(found))
    return folder


def side_by_side(folder: Path) -> Path:
    """Leave the table of two processes on one card in a run folder."""
    rows = [
        ProcRow(index=n, pid=500 + n, exit_code=0, log=str(folder / f"process{n}.log"), wall_s=20.0, samples_per_s=90.0)
        for n in range(2)
    ]
    made = Packed(
        procs=rows, mps=False, alone=100.0, together=180.0, gain=1.8, unit="samples/s", verdict="two at a time do ×1.80"
    )
    (folder / "share.json").write_bytes(packed_json(made))
    return folder


def plain(document: Verdict) -> Any:
    """Return a verdict as what JSON can hold, to be changed."""
    return json.loads(msgspec.json.encode(document))
