"""The device's own clock at the batch boundaries: it must never be initialised by us, nor waited for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gputune.events import Kind

LOOP = """
import time, torch
from torch.utils.data import DataLoader
class Slow:
    def __len__(self): return 6
    def __getitem__(self, i):
        time.sleep(0.03)
        return i
torch.cuda.initialized = INITIALISED
for batch in DataLoader(Slow(), batch_size=1):
    torch.cuda.work(10)
    time.sleep(0.01)
"""


def test_a_device_that_waits_for_data_is_idle_between_steps(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = LOOP.replace("INITIALISED", "True")
    run = watched(code, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    gaps = run.records(Kind.GAP)
    assert [gap.d for gap in gaps] == [1, 2, 3, 4, 5][: len(gaps)]
    assert len(gaps) >= 3
    for gap in gaps:
        assert 10_000_000 <= gap.b < gap.a + gap.b
        assert gap.a >= 20_000_000  # the loader's 30 ms, less what the host was ahead


def test_a_device_that_is_not_in_use_is_left_alone(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = LOOP.replace("INITIALISED", "False").replace("torch.cuda.work(10)", "pass")
    run = watched(code, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    assert run.records(Kind.GAP) == []
    assert len(run.records(Kind.BATCH)) == 7


def test_a_clock_that_fails_is_left_alone(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = LOOP.replace("INITIALISED", "True").replace(
        "for batch",
        "def broken(self, other): raise RuntimeError('lost')\ntorch.cuda.Event.elapsed_time = broken\nfor batch",
    )
    run = watched(code, path=(fake_torch,), env={"FAKE_CUDA": "12.4"})
    assert (run.status, run.err) == (0, "")
    assert 1 <= len(run.notes("error")) <= 3
    assert len(run.records(Kind.BATCH)) == 7
