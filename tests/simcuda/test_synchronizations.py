"""The guest asks the device for nothing that is waited for, in no script of the CUDA zoo: torch itself is the judge.

Under `torch.cuda.set_sync_debug_mode("error")` a script whose own steps wait for nothing comes through under the guest.
One that reads results in its steps, as many do, makes as many synchronizations with the guest as without it.
"""

import importlib.util
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.sample import Note, Target
from gputune.probes import loader

Maker = Callable[..., Any]
HERE = Path(__file__).resolve().parent
GUEST = HERE.parents[1] / "probes" / "guest"
ZOO = HERE.parent / "zoo" / "cuda"
PATIENCE = 100.0  # s
JUDGED = "called a synchronizing CUDA operation"
_SPEC = importlib.util.spec_from_file_location("zoo_cuda_judge_of_synchronizations", ZOO / "judge.py")
judge = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(judge)
ALL = {case.name: case for case in judge.scripts()}
# one of each kind of training; the others are tried by `make simcuda LONG=1`
MANY_KINDS = {
    "healthy_convnet", "healthy_transformer", "healthy_gan", "healthy_graphed", "healthy_compiled",
    "healthy_prefetcher", "healthy_ranks", "healthy_sharded", "healthy_accumulation", "few_workers_clicks",
    "frequent_eval_validation", "sync_every_step_item", "unpinned_memory_images", "slow_pinning_volumes",
}  # fmt: skip
NO_STEPS = {  # why a script has no steps of which torch could say anything
    "device_errors_memory": "its card fails",
}


def run(machine: Any, name: str, mode: str, rings: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the first steps of a script; under the guest where there is a folder for what it says."""
    env = {"ZOO_SCRIPT": str(ALL[name].path), "ZOO_SYNC_MODE": mode, "PYTHONDONTWRITEBYTECODE": "1"}
    if rings is not None:
        rings.mkdir(mode=0o700)
        env |= {"GPUTUNE_RINGS": str(rings), "GPUTUNE_HOST_PID": str(os.getpid()), "PYTHONPATH": str(GUEST)}
    command = [machine._simcuda.PYTHON, HERE / "synced.py"]
    return subprocess.run(
        command,
        env=machine.environment() | env,
        cwd=machine.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def said(rings: Path) -> list[str]:
    """Return what the guests of all processes noted, each by its name."""
    probe = loader.attach(Target(os.getpid(), dict, rings=rings))
    notes = [str(reading.fields.get("n")) for reading in next(probe) if isinstance(reading, Note)]
    probe.close()
    return notes


def counts(done: subprocess.CompletedProcess[str]) -> list[int]:
    """Return how many synchronizations each rank's steps made."""
    assert done.returncode == 0, done.stderr[-3000:]
    return sorted(map(int, re.findall(r"^.*synchronizations (\d+)$", done.stdout, re.MULTILINE)))


def marked(name: str) -> Any:
    """Return a script as a parameter of the test."""
    return pytest.param(name, marks=[] if name in MANY_KINDS else [pytest.mark.long])


@pytest.mark.slow
@pytest.mark.parametrize("name", [marked(name) for name in ALL if name not in NO_STEPS])
def test_the_guest_adds_no_synchronization_to_a_script(machine: Maker, name: str) -> None:
    made = machine(int(judge.zoo.header(ALL[name].path).get("devices", 1)))
    rings = made.folder / "strict"
    strict = run(made, name, "error", rings)
    if not strict.returncode and not counts(strict):  # once, beside other tests, neither of two ranks said a word
        rings = made.folder / "again"
        strict = run(made, name, "error", rings)
    notes = said(rings)
    assert not {"error", "off"} & set(notes)
    assert "device" in notes  # it timed steps meanwhile
    if strict.returncode:
        assert JUDGED in strict.stderr, strict.stderr[-3000:]
        bare = counts(run(made, name, "warn"))
        assert min(bare) > 0
        assert counts(run(made, name, "warn", made.folder / "counted")) == bare
    else:
        assert set(counts(strict)) == {0}
