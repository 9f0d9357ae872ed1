"""In what precision a model computes, told once from inside."""

import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.sample import Json, Note

# Each loop runs in a child of one process, which imports torch for all of them.
CHILD = """
child = os.fork()
if not child:
{loop}
    sys.exit()
assert os.waitpid(child, 0)[1] == 0
"""
LOOP = """
{model}
for batch in torch.utils.data.DataLoader(torch.ones(12, 4), batch_size=2):
    with {context}:
        loss = model(batch.to({dtype})).float().sum()
    loss.backward()
"""
LINEAR = "model = torch.nn.Linear(4, 4)"
INSIDE = """
class Casting(torch.nn.Linear):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x)
model = Casting(4, 4)
"""


def told(watched: Callable[..., Any], *loops: dict[str, str]) -> list[list[dict[str, Json]]]:
    """Return what each loop said of its precision."""
    pytest.importorskip("torch")
    plain = {"model": LINEAR, "context": "torch.enable_grad()", "dtype": "torch.float32"}
    code = "import os, sys, torch\n"
    code += "".join(CHILD.format(loop=textwrap.indent(LOOP.format(**{**plain, **loop}), "    ")) for loop in loops)
    run = watched(code).healthy()
    assert run.err == ""
    notes = [r for r in run.readings if isinstance(r, Note) and r.fields["n"] == "precision"]
    return [[r.fields for r in notes if r.process == process] for process in sorted({r.process for r in notes})]


def test_a_model_is_told_once_by_its_parameters(watched: Callable[..., Any]) -> None:
    half = {"model": LINEAR + ".bfloat16()", "dtype": "torch.bfloat16"}
    (plain,), (short,), (off,), (searched,) = told(
        watched,
        {},
        half,
        {"context": 'torch.autocast("cpu", enabled=False)'},
        {"context": "torch.autograd.set_detect_anomaly(True)"},
    )
    assert (plain["types"], plain["autocast"], plain["products"]) == (["torch.float32"], False, True)
    assert plain["convolutions"] is False
    assert plain["tf32"] in {True, False}
    assert short["types"] == ["torch.bfloat16"]
    assert off["autocast"] is False
    assert plain["threads"] >= 1
    assert (plain["anomaly"], searched["anomaly"]) == (False, True)


def test_autocast_is_told_wherever_it_is_entered(watched: Callable[..., Any]) -> None:
    found = told(
        watched,
        {"context": 'torch.autocast("cpu", dtype=torch.bfloat16)'},
        {"model": INSIDE},  # entered after the look
        {"context": 'torch.amp.autocast("cpu", dtype=torch.bfloat16, enabled=True)'},
    )
    assert len(found) == 3
    for notes in found:
        assert [note["devices"] for note in notes if "devices" in note] == [["cpu"]]
        assert [note["autocast"] for note in notes].count(True) >= 1
        assert len(notes) == 2  # the look, and the first time that it was entered


def test_modules_without_parameters_say_nothing(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = """
import torch
from torch.utils.data import DataLoader
model, optimizer = torch.nn.Module(), torch.optim.Optimizer()
for batch in DataLoader(list(range(4)), batch_size=1):
    model(batch)
    optimizer.step()
"""
    assert watched(code, path=(fake_torch,)).healthy().notes("precision") == []
