"""Runs to show: one that waits for its loader, with the parts that a test wants changed."""

from collections.abc import Callable

import pytest

from gputune.core.finding import Finding, Speedup
from gputune.features import Device, Features, Loader, Machine, Process


def _loader(**changes: object) -> Loader:
    facts: dict[str, object] = {
        "where": "train.py:41",
        "num_workers": 0,
        "prefetch_factor": None,
        "pin_memory": False,
        "persistent_workers": False,
        "batch_size": 16,
        "batches": 3100,
        "samples": 49600,
        "waits": (0.011,) * 100,
        "steps": (0.007,) * 100,
        "wait_total": 35.1,
    }
    return Loader(**{**facts, **changes})  # type: ignore[arg-type] # a test names the field it is about


def _process(**changes: object) -> Process:
    facts: dict[str, object] = {
        "pid": 4711,
        "rank": None,
        "wall": 61.2,
        "ledger": {"loader.wait": 35.1, "step": 22.0, "startup": 2.5, "checkpoint": 1.2, "logging": 0.4},
        "inclusive": {},
        "loop": 58.0,
        "batches": 3100,
        "samples": 49600,
        "optimizer_steps": 3100,
        "loaders": (_loader(),),
    }
    return Process(**{**facts, **changes})  # type: ignore[arg-type] # as above


def _features(**changes: object) -> Features:
    facts: dict[str, object] = {
        "command": ("python", "train.py"),
        "wall": 61.2,
        "machine": Machine(cpus=8, cpus_seen=8),
        "processes": (_process(),),
        "devices": (Device(index="0", name="NVIDIA H200", busy=0.41),),
        "exit_code": 0,
    }
    return Features(**{**facts, **changes})  # type: ignore[arg-type] # as above


def _finding(**changes: object) -> Finding:
    facts: dict[str, object] = {
        "id": "few-workers",
        "says": "57 % of the loop is spent waiting for batches, of which one takes 11 ms to make",
        "do": "set num_workers=6",
        "share_lost": 0.57,
        "speedup": Speedup(low=1.9, likely=2.2, high=2.3),
        "basis": "replay of the measured times",
        "falsified_by": "samples/s with num_workers=6 below 1,600",
        "effect": "same-order",
        "evidence": {"waiting": 0.57},
        "where": "train.py:41",
        "change": {"num_workers": 6},
    }
    return Finding(**{**facts, **changes})  # type: ignore[arg-type] # as above


@pytest.fixture
def loader() -> Callable[..., Loader]:
    """Make a loader without workers that is waited for."""
    return _loader


@pytest.fixture
def process() -> Callable[..., Process]:
    """Make a training process of a minute that waits for that loader."""
    return _process


@pytest.fixture
def features() -> Callable[..., Features]:
    """Make a run of that process on one device."""
    return _features


@pytest.fixture
def finding() -> Callable[..., Finding]:
    """Make the finding that fits that run."""
    return _finding
