"""Runs as their folders tell them: what a test does not ask for is as in any other run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputune.core.units import NS
from gputune.verdict.document import (
    CpuRow,
    DeviceTotals,
    FindingRow,
    LedgerRow,
    LoaderRow,
    Overhead,
    ProcessRow,
    SpeedupRow,
    Verdict,
)

Make = Callable[..., Path]
HOUR = 3600


def loader(**changes: Any) -> LoaderRow:
    plain = {"num_workers": 0, "prefetch_factor": None, "pin_memory": False, "persistent_workers": False}
    return LoaderRow(**{"where": "train.py:41", "batch_size": 16, "batches": 900, **plain, **changes})


def finding(identity: str, gain: float, **change: Any) -> FindingRow:
    return FindingRow(
        id=identity,
        severity="high",
        share_lost=0.5,
        speedup=SpeedupRow(low=gain * 0.9, likely=gain, high=gain * 1.1),
        says="it waits",
        do="do",
        where="train.py:41",
        change=change,
        evidence={"n": 1.0},
        basis="b",
        falsified_by="f",
        effect="same-order",
    )


def rank(number: int | None = None, world: int | None = None) -> ProcessRow:
    return ProcessRow(
        pid=1,
        rank=number,
        seen=True,
        why="",
        wall_s=60.0,
        startup_s=2.0,
        loop_s=58.0,
        batches=900,
        optimizer_steps=900,
        samples_per_s=800.0,
        world_size=world,
    )


def verdict(rate: float | None = 800.0, **changes: Any) -> Verdict:
    found: dict[str, Any] = {
        "command": ["python", "train.py"],
        "exit_code": 0,
        "wall_s": 60.0,
        "samples_per_s": rate,
        "batches": 900 if rate else 0,
        "device": DeviceTotals(name="NVIDIA H200", busy=0.4, count=1),
        "loaders": [loader()],
        "ledger": [
            LedgerRow(span="loader.wait", seconds=30.0, share=0.5),
            LedgerRow(span="step", seconds=30.0, share=0.5),
        ],
        "findings": [],
        "overhead": Overhead(),
        "unavailable": [],
        "loop_s": 58.0,
        "processes": [rank()] if rate else [],
        "cpu": CpuRow(allowed=8.0, job=2.0, others=0.0),
        "rate_error": 0.001,
    }
    return Verdict(**{**found, **changes})


@pytest.fixture
def run(tmp_path: Path) -> Make:
    """Make a run folder: `run("a", rate=812, at=2, about={...}, ...)` began at hour 2, the rest is its verdict's."""

    def make(name: str, rate: float | None = 800.0, *, at: float = 0, about: Any = None, **changes: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        told = {
            "schema_version": 1,
            "gputune": "1.0",
            "unix_minus_monotonic_ns": 1_700_000_000 * NS,
            "started": int(at * HOUR * NS),
            "finished": True,
            "exit_code": changes.get("exit_code", 0),
            "environment": {},
        }
        (folder / "run.json").write_text(json.dumps({**told, **(about or {})}))
        (folder / "findings.json").write_bytes(msgspec.json.encode(verdict(rate, **changes)))
        return folder

    return make
