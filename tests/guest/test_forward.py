"""The time between getting a batch and the first module call: data work in the training loop."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gputune.core.events import Kind

HEAD = """
import time, torch
from torch.utils.data import DataLoader
model, optimizer = torch.nn.Module(), torch.optim.Optimizer()
"""


def test_what_comes_before_the_first_module_call_is_timed(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = """
for batch in DataLoader(list(range(8)), batch_size=1):
    time.sleep(0.01)
    model(batch)
    time.sleep(0.05)
    model(batch)
    optimizer.step()
"""
    run = watched(HEAD + code, path=(fake_torch,)).healthy()
    forwards = run.records(Kind.FORWARD)
    assert [f.code for f in forwards] == [0] * 8
    assert all(b.t1 < f.t0 < b.t1 + 10_000_000 for f, b in zip(forwards, run.records(Kind.BATCH), strict=False))
    assert min(f.t1 - f.t0 for f in forwards) >= 10_000_000
    steps = run.records(Kind.STEP)
    assert all(
        f.t1 + 50_000_000 <= step.t0 for f, step in zip(forwards, steps, strict=True)
    )  # the first call, not the second


def test_without_a_loader_it_counts_from_the_last_step(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = """
for i in range(5):
    time.sleep(0.01)
    model(i)
    optimizer.step()
"""
    run = watched(HEAD + code, path=(fake_torch,)).healthy()
    forwards = run.records(Kind.FORWARD)
    assert [f.code for f in forwards] == [1] * 4
    assert all(s.t1 < f.t0 < s.t1 + 10_000_000 for f, s in zip(forwards, run.records(Kind.STEP), strict=False))


def test_a_step_that_calls_no_module_is_not_timed(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = """
for batch in DataLoader(list(range(6)), batch_size=1):
    if batch[0] % 2:
        model(batch)
    optimizer.step()
with torch.no_grad():
    for batch in DataLoader(list(range(6)), batch_size=1):
        model(batch)
"""
    run = watched(HEAD + code, path=(fake_torch,)).healthy()
    batches, forwards = run.records(Kind.BATCH), run.records(Kind.FORWARD)
    assert [sum(b.t1 < f.t0 for b in batches) for f in forwards] == [2, 4, 6]


def test_an_optimizer_that_imports_the_compiler_is_no_compiler(watched: Callable[..., Any]) -> None:
    code = """
import sys, torch
model, loader = torch.nn.Linear(2, 2), torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=2)
optimizer = torch.optim.SGD(model.parameters())
for batch in loader:
    model(batch).sum().backward()
    optimizer.step()
assert "torch._dynamo" in sys.modules
"""
    assert len(watched(code).healthy().records(Kind.FORWARD)) == 4


def test_frames_compiled_without_a_word_end_the_timing_too(watched: Callable[..., Any]) -> None:
    code = """
import torch, torch._dynamo
from torch.nn.modules import module
model, loader = torch.nn.Linear(2, 2), torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=2)
torch._dynamo.optimize("eager")(lambda x: x + 1)(torch.ones(2))
for batch in loader:
    assert not module._global_forward_pre_hooks
    model(batch)
"""
    assert not watched(code).healthy().records(Kind.FORWARD)


def test_no_hook_is_left_and_none_is_set_beside_a_compiler(watched: Callable[..., Any]) -> None:
    code = """
import torch
from torch.nn.modules import module
model, loader = torch.nn.Linear(2, 2), torch.utils.data.DataLoader(torch.ones(8, 2), batch_size=2)
for batch in loader:
    assert len(module._global_forward_pre_hooks) == 1
    model(batch)
    assert not module._global_forward_pre_hooks
torch.compile(model, backend="eager")
for batch in loader:
    assert not module._global_forward_pre_hooks
    model(batch)
"""
    run = watched(code).healthy()
    assert len(run.records(Kind.FORWARD)) == 4
