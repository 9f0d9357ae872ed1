"""Memory of the device: what is live between two steps, and that it ran out, whoever catches that."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gputune.core.events import Kind, OomCode

MIB = 1 << 20
LOOP = """
import time, torch
from torch.utils.data import DataLoader
class Data:
    def __len__(self): return 40
    def __getitem__(self, i): return i
def step(mib):
    torch.cuda.keep(mib << 20)
torch.cuda.init()
for batch in DataLoader(Data(), batch_size=1):
    time.sleep(0.005)
    STEP
"""
CUDA = {"FAKE_CUDA": "12.4"}
Run = Callable[..., Any]


def test_what_tensors_hold_is_told_between_steps(watched: Run, fake_torch: Path) -> None:
    code = LOOP.replace("STEP", "step(2)").replace("0.005", "0.06")  # two seconds: it is read once a second at least
    readings = (run := watched(code, path=(fake_torch,), env=CUDA).healthy()).records(Kind.MEMORY)
    assert len(readings) >= 2
    assert readings[0].a == 0
    assert [r.a for r in readings] == sorted({r.a for r in readings})
    assert all(r.code == 0 and r.a == r.b == r.d and r.t0 == r.t1 for r in readings)
    (card,) = run.notes("card")
    assert (card["device"], card["total"]) == (0, 1 << 30)
    assert card["uuid"] == "GPU-51a00000-0000-4000-8000-000000000000"


def test_a_device_that_nobody_uses_is_neither_asked_nor_initialised(watched: Run, fake_torch: Path) -> None:
    code = LOOP.replace("torch.cuda.init()", "").replace("STEP", "assert not torch._C.observers")
    run = watched(code, path=(fake_torch,), env=CUDA).healthy()
    assert run.records(Kind.MEMORY) == []
    assert run.notes("card") == []


def test_memory_that_ran_out_is_told_although_the_script_catches_it(watched: Run, fake_torch: Path) -> None:
    code = LOOP.replace(
        "STEP", "try:\n        step(300)\n    except torch.OutOfMemoryError:\n        print('halve'); break"
    )
    run = watched(code, path=(fake_torch,), env=CUDA).healthy()
    assert run.out == "halve\n"
    (record,) = run.records(Kind.OOM)
    assert (record.a, record.b, record.e, record.code) == (300 * MIB, 900 * MIB, 124 * MIB, 0)
    (site,) = (note for note in run.notes("site") if note["id"] == record.c)
    assert site["where"] == "train.py:8"


def test_memory_that_ran_out_reads_on_the_terminal_as_without_us(
    watched: Run, fake_torch: Path, tmp_path: Path
) -> None:
    env = {**CUDA, "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    run = watched(LOOP.replace("STEP", "step(300)"), path=(fake_torch,), env=env)
    (record,) = run.records(Kind.OOM)
    assert record.code == OomCode.EXPANDABLE
    assert run.notes("error") == []
    environment = {**os.environ, **env, "PYTHONPATH": str(fake_torch), "PYTHONDONTWRITEBYTECODE": "1"}
    bare = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (run.status, run.out, run.err) == (bare.returncode, bare.stdout, bare.stderr)


def test_an_allocator_that_does_not_count_is_left_alone(watched: Run, fake_torch: Path) -> None:
    code = LOOP.replace("torch.cuda.init()", "torch.cuda.init(); torch._C.counts = False").replace("STEP", "step(1)")
    run = watched(code, path=(fake_torch,), env=CUDA).healthy()
    assert run.records(Kind.MEMORY) == []
    assert len(run.records(Kind.BATCH)) == 41
