"""How the tests of `share` run it: as a user does, in a folder of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from gputune.watching.starting import RANKS

GPUTUNE = (sys.executable, "-m", "gputune", "share")
TASK = str(Path(__file__).parent / "task.py")
PATIENCE = 150.0  # s; only a hang ends here: a simulated card takes real time, on a busy machine more of it
Share = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no setting of whoever runs the tests reach them."""
    for name in list(os.environ):
        if name.startswith("GPUTUNE_"):
            monkeypatch.delenv(name)
    for name in (*RANKS, "PYTHONPATH", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "SIMGPU_STATE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def share() -> Share:
    """Return a function that runs `gputune share ARGUMENTS` to its end."""

    def run(*arguments: str, **more: Any) -> "subprocess.CompletedProcess[str]":
        options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, **more}
        return subprocess.run((*GPUTUNE, *map(str, arguments)), check=False, timeout=PATIENCE, **options)

    return run


@pytest.fixture
def started(popen: Callable[..., "subprocess.Popen[str]"]) -> Callable[..., "subprocess.Popen[str]"]:
    """Return a function that starts it and returns at once."""

    def run(*arguments: str, **more: Any) -> "subprocess.Popen[str]":
        options = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            **more,
        }
        return popen((*GPUTUNE, *map(str, arguments)), **options)

    return run


@pytest.fixture
def document(tmp_path: Path) -> Callable[[], dict[str, Any]]:
    """Return a function that reads the one run's share.json."""

    def find() -> dict[str, Any]:
        (file,) = (tmp_path / "gputune-runs").glob("*/share.json")
        return json.loads(file.read_text())

    return find


@pytest.fixture
def log(tmp_path: Path) -> Callable[[str], str]:
    """Return a function that reads what a process of the one run wrote."""

    def find(name: str = "process0") -> str:
        (file,) = (tmp_path / "gputune-runs").glob(f"*/{name}.log")
        return file.read_text()

    return find


@pytest.fixture
def family() -> Callable[[int], list[psutil.Process]]:
    """Return a function that lists a process and all below it."""

    def find(pid: int) -> list[psutil.Process]:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]

    return find


@pytest.fixture
def gone() -> Callable[[list[psutil.Process]], bool]:
    """Return a function that tells whether none of some processes runs any more."""
    return lambda processes: not any(map(_lives, processes))


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, FileNotFoundError):  # the latter where it went between two looks of psutil
        return False
