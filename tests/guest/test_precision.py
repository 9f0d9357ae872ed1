"""In what precision a model computes, told once from inside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LOOP = """
import torch
{model}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(torch.ones(12, 4), batch_size=2):
    with {context}:
        loss = model(batch.to({dtype})).float().sum()
    loss.backward()
    optimizer.step()
"""
LINEAR = "model = torch.nn.Linear(4, 4)"
INSIDE = """
class Casting(torch.nn.Linear):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x)
model = Casting(4, 4)
"""


def notes(watched: Callable[..., Any], model: str, context: str = "torch.enable_grad()", dtype: str = "torch.float32"):
    pytest.importorskip("torch")
    run = watched(LOOP.format(model=model, context=context, dtype=dtype)).healthy()
    assert run.err == ""
    return run.notes("precision")


def test_a_plain_model_is_told_once(watched: Callable[..., Any]) -> None:
    (note,) = notes(watched, LINEAR)
    assert (note["types"], note["autocast"], note["products"]) == (["torch.float32"], False, True)
    assert note["convolutions"] is False
    assert note["tf32"] in {True, False}


def test_a_model_in_16_bits_is_told_by_its_parameters(watched: Callable[..., Any]) -> None:
    (note,) = notes(watched, LINEAR + ".bfloat16()", dtype="torch.bfloat16")
    assert note["types"] == ["torch.bfloat16"]


@pytest.mark.parametrize(
    ("model", "context"),
    [
        (LINEAR, 'torch.autocast("cpu", dtype=torch.bfloat16)'),
        (INSIDE, "torch.enable_grad()"),  # entered after the look
        (LINEAR, 'torch.amp.autocast("cpu", dtype=torch.bfloat16, enabled=True)'),
    ],
)
def test_autocast_is_told_wherever_it_is_entered(watched: Callable[..., Any], model: str, context: str) -> None:
    told = notes(watched, model, context)
    assert [note["autocast"] for note in told].count(True) >= 1
    assert len(told) == 2  # the look, and the first time that it was entered


def test_autocast_that_is_switched_off_is_none(watched: Callable[..., Any]) -> None:
    (note,) = notes(watched, LINEAR, 'torch.autocast("cpu", enabled=False)')
    assert note["autocast"] is False


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
