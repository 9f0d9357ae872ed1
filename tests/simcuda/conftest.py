"""What tests of CUDA on simulated cards share. `make simcuda` runs them: they need torch's CUDA build."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if not os.environ.get("GPUTUNE_SIMCUDA"):
    collect_ignore_glob = ["test_*.py"]

PATIENCE = 120.0  # s
BEFORE = """
import os, sys, time, torch
MS = 1_980_000  # cycles
device = torch.device("cuda")
def mark(stream=None):
    event = torch.cuda.Event(enable_timing=True)
    event.record(stream)
    return event
def ahead():  # what is queued behind this follows without a gap, however slow we are
    torch.cuda._sleep(500 * MS)
def sync():
    torch.cuda.synchronize()
"""


class Machine:
    """Simulated cards, and a Python with CUDA on them."""

    def __init__(self, folder: Path, devices: int) -> None:
        import simcuda

        self._simcuda = simcuda
        self.folder = folder
        self.state = simcuda.simgpu.create(folder / "state", devices)
        self.cards = simcuda.simgpu.Cards(self.state)

    def environment(self, **options: object) -> dict[str, str]:
        """Return the environment of a process on these cards; waits sleep unless `spin` is given."""
        told = {name: str(value) for name, value in {"spin": 0, "init_ms": 1, **options}.items()}
        return self._simcuda.environment(self.state, **told)

    def start(self, code: str, environment: dict[str, str] | None = None, **options: object) -> Any:
        """Start a Python that runs `code`, with pipes."""
        script = self.folder / f"script-{len(list(self.folder.glob('script-*')))}.py"
        script.write_text(BEFORE + textwrap.dedent(code))
        return subprocess.Popen(
            [self._simcuda.PYTHON, script],
            env=self.environment(**options) | (environment or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, code: str, environment: dict[str, str] | None = None, **options: object) -> list[str]:
        """Run `code` and return what it printed, word by word."""
        process = self.start(code, environment, **options)
        out, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0 or self._simcuda.is_torchs_own(process.returncode, errors), errors
        return str(out).split()

    def torchrun(self, ranks: int, code: str, **options: object) -> list[str]:
        """Run `code` in as many ranks under torchrun, and return what they printed, line by line."""
        script = self.folder / "ranks.py"
        script.write_text(BEFORE + textwrap.dedent(code))
        command = [self._simcuda.PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), script]
        env = self.environment(**options) | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout.splitlines()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Machine]:
    """Return a maker of machines with simulated cards."""
    monkeypatch.setenv("SIMGPU_STATE", "")  # so that it is taken back
    return lambda devices=1: Machine(tmp_path, devices)
