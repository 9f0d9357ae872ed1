"""Scripts that record themselves, each in a folder and a process of its own."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

Script = Callable[..., "subprocess.CompletedProcess[str]"]

TRAINING = """
import time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 240

    def __getitem__(self, i):
        time.sleep(0.002)
        return torch.randn(3, generator=torch.Generator().manual_seed(i))

def train(loader=None):
    torch.manual_seed(7)
    weight = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    losses = []
    for batch in loader or DataLoader(Slow(), batch_size=4, shuffle=True):
        loss = ((weight - batch) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
    return losses
"""


def plain() -> dict[str, str]:
    """Return the environment without what this very test run may have from gputune, and with ours importable."""
    found = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
    return {**found, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """Return what runs lines of Python as a script, after the training's where they name it."""

    def run(
        lines: str, *, before: tuple[str, ...] = (), status: int = 0, **variables: str
    ) -> "subprocess.CompletedProcess[str]":
        lines = textwrap.dedent(lines)
        file = tmp_path / "own.py"
        file.write_text((TRAINING if "train(" in lines else "") + lines)
        done = subprocess.run(
            [*before, sys.executable, str(file)], cwd=tmp_path, env={**plain(), **variables}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        return done

    return run
