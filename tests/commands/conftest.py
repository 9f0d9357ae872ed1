"""The command line as a user meets it: a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def gputune(tmp_path: Path) -> Run:
    """Run `gputune ARGUMENTS` in an empty folder, with no setting of this machine's user in force."""

    def run(*arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
        return subprocess.run(
            [sys.executable, "-m", "gputune", *arguments],
            cwd=tmp_path,
            env={**plain, "PYTHONIOENCODING": "utf-8", **environ},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,  # s; only a hang ends here
            check=False,
        )

    return run
