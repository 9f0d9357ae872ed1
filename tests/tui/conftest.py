"""Rows to draw: nodes of eight devices, and a run that waits for its loader, with what a test wants changed."""

import random
import unicodedata
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from gputune.feeds.rows import DeviceRow, DiskRow, History, NetRow, Node, Pressure, RunRow, ShareRow, TaskRow
from gputune.verdict.document import (
    DeviceTotals as Devices,
)
from gputune.verdict.document import (
    FindingRow,
    LedgerRow,
    LoaderRow,
    Overhead,
    ProcessRow,
    SpeedupRow,
    UnavailableRow,
    Verdict,
)

Make = Callable[..., object]


def _device(index: int = 0, **changes: object) -> DeviceRow:
    facts: dict[str, object] = {
        "index": str(index),
        "name": "NVIDIA H200",
        "busy": 0.4 + index / 20,
        "memory_used": 60.5 * 2**30,
        "memory_total": 141.0 * 2**30,
        "power": 420.0,
        "power_limit": 700.0,
        "temperature": 61.0,
        "clock": 1.98e9,
    }
    return DeviceRow(**{**facts, **changes})  # type: ignore[arg-type] # a test names the field it is about


def _node(name: str = "m8", *, devices: int = 8, **changes: object) -> Node:
    facts: dict[str, object] = {
        "name": name,
        "rack": "r1",
        "job": "job-7",
        "seen": 1_000_000.0,
        "devices": tuple(_device(k) for k in range(devices)),
        "cpus": 64.0,
        "cpu": 12.5,
        "iowait": 0.02,
        "cores": tuple((k % 10) / 10 for k in range(64)),
        "memory_used": 200.0 * 2**30,
        "memory_total": 512.0 * 2**30,
        "shm_free": 60.0 * 2**30,
        "shm_total": 64.0 * 2**30,
        "pressure": Pressure(cpu=0.01, io=0.2, memory=0.0),
        "disks": (DiskRow(name="nvme0n1", read=1.2e9, written=3e6, busy=0.8),),
        "nets": (NetRow(name="eth0", received=1e6, sent=2e6),),
        "tasks": (
            TaskRow(
                pid=4711, name="python", role="main", run="m8/run", cpu=1.0, memory=4e9, device="0", device_memory=6e10
            ),
            TaskRow(pid=4712, name="python", role="worker", run="m8/run", cpu=0.9, memory=1e9),
            TaskRow(pid=4713, name="python", role="worker", run="m8/run", cpu=0.8, memory=1e9),
            TaskRow(pid=99, name="backup", cpu=0.5, memory=1e8),
        ),
        "wait": 0.57,
        "rate": 855.0,
        "finding": "few-workers",
        "gain": 2.2,
        "runs": ("m8/run",),
    }
    return Node(**{**facts, **changes})  # type: ignore[arg-type] # as above


def _finding(**changes: object) -> FindingRow:
    facts: dict[str, object] = {
        "id": "few-workers",
        "severity": "high",
        "share_lost": 0.57,
        "speedup": SpeedupRow(low=1.9, likely=2.2, high=2.3),
        "says": "57 % of the loop is spent waiting for batches, of which one takes 11 ms to make",
        "do": "set num_workers=6",
        "where": "train.py:41",
        "change": {"num_workers": 6},
        "evidence": {"waiting": 0.57},
        "basis": "replay of the measured times",
        "falsified_by": "samples/s with num_workers=6 below 1,600",
        "effect": "same-order",
    }
    return FindingRow(**{**facts, **changes})  # type: ignore[arg-type] # as above


def _rank(rank: int, own: float) -> ProcessRow:
    return ProcessRow(
        pid=4711 + rank, rank=rank, seen=True, why="", wall_s=61.2, startup_s=2.5, loop_s=58.0, batches=3100,
        optimizer_steps=3100, samples_per_s=214.0, own_s=own, apart_s=0.02 - own / 10, rounds=50,
    )  # fmt: skip


def _verdict(*, ranks: int = 1, **changes: object) -> Verdict:
    ledger = {
        "loader.wait": 0.574,
        "step": 0.359,
        "startup": 0.041,
        "checkpoint": 0.020,
        "logging": 0.004,
        "sync": 0.002,
    }
    facts: dict[str, object] = {
        "command": ["python", "train.py"],
        "exit_code": 0,
        "wall_s": 61.2,
        "samples_per_s": 855.0,
        "batches": 3100,
        "device": Devices(name="NVIDIA H200", busy=0.41, count=1),
        "loaders": [
            LoaderRow(
                where="train.py:41", num_workers=0, prefetch_factor=None, pin_memory=False, persistent_workers=False,
                batch_size=16, batches=3100, wait_s=35.1,
            )
        ],
        "ledger": [LedgerRow(span=span, seconds=61.2 * share, share=share) for span, share in ledger.items()],
        "findings": [_finding()],
        "overhead": Overhead(),
        "unavailable": [UnavailableRow(probe="nvml", why="no driver")],
        "processes": [_rank(k, 0.030 if k == 2 else 0.010) for k in range(ranks)],
    }  # fmt: skip
    return Verdict(**{**facts, **changes})  # type: ignore[arg-type] # as above


def _run(**changes: object) -> RunRow:
    points = 61
    facts: dict[str, object] = {
        "id": "m8/run",
        "node": "m8",
        "name": "train.py",
        "folder": "gputune-runs/run",
        "state": "ended",
        "started": 1_000_000.0,
        "length": 61.2,
        "at": 61.2,
        "seekable": True,
        "command": ("python", "train.py"),
        "verdict": _verdict(),
        "judged": 61.2,
        "history": History(
            busy=tuple(0.4 + (k % 7) / 20 for k in range(points)),
            wait=(None, None, None, *(0.5 + (k % 5) / 50 for k in range(points - 3))),
            rate=(None, None, None, *(850.0 + k for k in range(points - 3))),
            queue=(None,) * points,
        ),
    }
    return RunRow(**{**facts, **changes})  # type: ignore[arg-type] # as above


def _procs(count: int = 3) -> tuple[ShareRow, ...]:
    return tuple(
        ShareRow(
            index=k,
            pid=100 + k,
            exit_code=None if k else 1,
            rate=80.0,
            share=0.3,
            memory=2.0 * 2**30,
            log=f"logs/{k}.log",
        )
        for k in range(count)
    )


HOSTILE = (
    "\x1b]52;c;cm0gLXJmIC8=\x07", "\x1b[2J\x1b[H", "\x9b31m", "\x90q#\x9c", "a\u202egnp.exe", "\u200b\u2066\u2069",
    "\x00\x08\x7f", "\r\n\t", "\U000e0041", "\udcff", "[bold]x[/bold]", "[@click=app.quit]x[/]", "日本語" * 30,
    "e\u0301" * 50, "x" * 5000, "\U0001f9d1\u200d\U0001f692",
)  # fmt: skip
ALPHABET = [chr(k) for k in (*range(0x100), *range(0x200B, 0x2070), 0xFEFF, 0xE0041, 0x65E5, 0x301, 0xDC80)]
OURS = {Node: {"link"}, RunRow: {"state"}}  # strings that are one of a few words, or are refused where they come in
HARMFUL = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # of Unicode: controls, invisible formats, surrogates, separators


class Names:
    """Makes names and lines of logs up, to do harm with, and counts them."""

    def __init__(self) -> None:
        self.count = 0
        self.chance = random.Random(20261122)

    def __call__(self) -> str:
        self.count += 1
        if self.chance.random() < 0.2:
            return self.chance.choice(HOSTILE)
        return "".join(self.chance.choices(ALPHABET, k=self.chance.randrange(1, 40)))

    def of(self, value: Any) -> Any:
        """Return a row with a name of ours in the place of every string in it, at any depth."""
        if isinstance(value, str):
            return self()
        if isinstance(value, msgspec.Struct):
            fields = set(value.__struct_fields__) - OURS.get(type(value), set())
            return replace(value, **{each: self.of(getattr(value, each)) for each in sorted(fields)})
        if isinstance(value, dict):
            return {self.of(key): self.of(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(map(self.of, value))
        return value


def _evil(names: Names) -> tuple[Node, RunRow]:
    """Return a node and a run whose every string is made up."""
    verdict = _verdict(ranks=2)
    run = names.of(_run(verdict=verdict, recent=verdict, procs=_procs()))
    node = names.of(_node(devices=1, unavailable={"nvml": "no driver"}))
    tasks = tuple(replace(task, started=7) for task in node.tasks)
    return replace(node, tasks=tasks, link=names.chance.choice(["local", "up", "down", "refused"])), run


def harm(text: str) -> list[str]:
    """Return what is in a text that a terminal would not show but do, or show elsewhere."""
    return [c for c in text if unicodedata.category(c) in HARMFUL]


@pytest.fixture
def names() -> Names:
    """Return what makes names up."""
    return Names()


@pytest.fixture
def rows() -> SimpleNamespace:
    """Return all makers by name."""
    return SimpleNamespace(
        device=_device, node=_node, finding=_finding, verdict=_verdict, run=_run, procs=_procs, evil=_evil, harm=harm
    )


@pytest.fixture
def device() -> Make:
    """Make a device that is half busy."""
    return _device


@pytest.fixture
def node() -> Make:
    """Make a node of eight devices, with a run on it."""
    return _node


@pytest.fixture
def finding() -> Make:
    """Make a finding."""
    return _finding


@pytest.fixture
def verdict() -> Make:
    """Make a verdict on `ranks` processes."""
    return _verdict


@pytest.fixture
def run() -> Make:
    """Make a run that has ended."""
    return _run


@pytest.fixture
def procs() -> Make:
    """Make processes that share a device."""
    return _procs
