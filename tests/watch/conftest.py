"""How the tests of `watch` run it: as a user does, in a process of its own, in a folder of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputune.watching.starting import RANKS

GPUTUNE = (sys.executable, "-m", "gputune")
PATIENCE = 120.0  # s that anything may take before a test calls it hung
Watch = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no setting of whoever runs the tests reach them, and keep each test in its own folder."""
    for name in list(os.environ):
        if name.startswith("GPUTUNE_"):
            monkeypatch.delenv(name)
    for name in RANKS:  # whoever runs the tests may be a task of a job
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def watch() -> Watch:
    """Return a function that runs `gputune watch ARGUMENTS` to its end, with output captured."""

    def run(*arguments: str, **more: object) -> "subprocess.CompletedProcess[str]":
        options: dict[str, object] = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, **more}
        command = (*GPUTUNE, "watch", *arguments)
        return subprocess.run(command, check=False, timeout=PATIENCE, **options)  # type: ignore[call-overload, no-any-return] # pass-through

    return run


@pytest.fixture
def started(popen: Callable[..., "subprocess.Popen[str]"]) -> Callable[..., "subprocess.Popen[str]"]:
    """Return a function that starts `gputune watch ARGUMENTS` and returns at once."""

    def run(*arguments: str, **more: object) -> "subprocess.Popen[str]":
        options: dict[str, object] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            **more,
        }
        return popen((*GPUTUNE, "watch", *arguments), **options)

    return run


@pytest.fixture
def run_folder(tmp_path: Path) -> Callable[[], Path]:
    """Return a function that finds the one run that was made in the test's folder."""

    def find() -> Path:
        (folder,) = (each for each in (tmp_path / "gputune-runs").iterdir() if each.is_dir())
        return folder

    return find
