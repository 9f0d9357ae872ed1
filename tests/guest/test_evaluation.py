"""What counts as an evaluation, and what must not: nobody says the word."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.events import Kind, SpanCode

HEAD = """
import time, torch
from torch.utils.data import DataLoader
class Numbers:
    def __len__(self): return 8
    def __getitem__(self, i): return i
train, val = DataLoader(Numbers(), batch_size=2), DataLoader(Numbers(), batch_size=4)
model, other = torch.nn.Module(torch.nn.Module()), torch.nn.Module(torch.nn.Module())
optimizer, second = torch.optim.Optimizer(), torch.optim.Optimizer()
def step():
    torch.autograd.backward()
    optimizer.step()
def validate():
    for batch in val: pass
"""

EVALUATIONS = {
    "eval, no_grad over another loader, train": (
        """
for epoch in range(2):
    model.train()
    for batch in train: step()
    model.eval()
    with torch.no_grad(): validate()
""",
        1,
        True,
    ),
    "no_grad inside the loop only, train at the epoch's start": (
        """
for epoch in range(3):
    model.train()
    for batch in train: step()
    model.eval()
    for batch in val:
        with torch.no_grad(): pass
model.train()
""",
        3,
        False,
    ),
    "in the middle of an epoch, without train()": (
        """
for i, batch in enumerate(train):
    step()
    if i % 2:
        with torch.no_grad(): validate()
""",
        2,
        False,
    ),
    "in the middle of an epoch, before the step": (
        """
for i, batch in enumerate(train):
    if i % 2:
        model.eval()
        validate()
    step()
""",
        2,
        False,
    ),
    "the next epoch begins without train()": (
        """
for epoch in range(3):
    for batch in train: step()
    model.eval()
    validate()
for batch in train: pass
""",
        3,
        False,
    ),
    "no loader: batches made by a function, gradients off for the whole function": (
        """
def estimate():
    with torch.no_grad():
        model.eval()
        time.sleep(0.001)
        model.train()
for i in range(4):
    if i % 2 == 0: estimate()
    step()
""",
        2,
        False,
    ),
    "no loader, and an update by hand": (
        """
for i in range(9):
    torch.autograd.backward()
    if i % 4 == 3:
        model.eval()
        time.sleep(0.001)
        model.train()
""",
        2,
        False,
    ),
    "no loader, every few steps": (
        """
for i in range(9):
    step()
    if i % 4 == 3:
        model.eval()
        time.sleep(0.001)
        model.train()
""",
        2,
        False,
    ),
    "a frozen teacher": (
        """
other.eval()
for epoch in range(3):
    model.train()
    other.eval()
    for batch in train: step()
""",
        0,
        False,
    ),
    "a frozen teacher, put to eval in every step": (
        """
for epoch in range(2):
    for batch in train:
        with torch.no_grad(): other.eval()
        step()
""",
        0,
        False,
    ),
    "a generator in eval mode while the discriminator trains": (
        """
for batch in train:
    other.eval(); model.train()
    torch.autograd.backward(); optimizer.step()
    other.train(); model.eval()
    torch.autograd.backward(); second.step()
    other.eval(); other.train()
""",
        0,
        False,
    ),
    "frozen batch norm": (
        """
for epoch in range(3):
    model.train()
    model.inner[0].eval()
    for batch in train: step()
""",
        0,
        False,
    ),
}


@pytest.mark.parametrize("case", EVALUATIONS, ids=lambda case: case.replace(" ", "-"))
def test_evaluations_are_told_from_what_only_looks_like_one(
    watched: Callable[..., Any], fake_torch: Path, case: str
) -> None:
    code, closed, still_open = EVALUATIONS[case]
    run = watched(HEAD + code, path=(fake_torch,)).healthy()
    found = run.spans(SpanCode.EVALUATION)
    assert len(found) == closed
    opened = run.open()
    assert bool(opened is not None and opened.since) == still_open
    assert all(before.t1 <= after.t0 for before, after in itertools.pairwise(found))


def test_an_evaluation_ends_where_the_last_inner_batch_was_got(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = """
for i, batch in enumerate(train):
    with torch.no_grad(): validate()
    time.sleep(0.05)
    step()
"""
    run = watched(HEAD + code, path=(fake_torch,)).healthy()
    found = run.spans(SpanCode.EVALUATION)
    assert len(found) == 4
    steps = run.records(Kind.STEP)
    assert all(span.t1 + 50_000_000 <= step.t0 for span, step in zip(found, steps, strict=True))
    assert {note["what"]: note["where"] for note in run.notes("site")}["evaluation"] == "train.py:17"


HELPERS = {
    "eval() in a helper": """
def estimate():
    model.eval()
    with torch.no_grad(): validate()
    model.train()
for batch in train:
    estimate()
    step()
""",
    "a pass of its own beside one that trains": """
def train_one():
    model.train()
    for batch in train: step()
def test():
    model.eval()
    with torch.no_grad(): validate()
for epoch in range(2):
    train_one()
    test()
""",
    "without a loader, after the first steps": """
def estimate():
    model.eval()
    with torch.no_grad(): model()
    model.train()
for i in range(9):
    if i % 4 == 3: estimate()
    step()
""",
    "eval() in the loop itself": """
for batch in train:
    step()
    model.eval()
    with torch.no_grad(): validate()
    model.train()
""",
}


@pytest.mark.parametrize("case", HELPERS, ids=lambda case: case.replace(" ", "-"))
def test_its_place_is_where_the_training_calls_for_it(watched: Callable[..., Any], fake_torch: Path, case: str) -> None:
    called = {"eval() in a helper": 21, "a pass of its own beside one that trains": 24, "eval() in the loop itself": 18}
    run = watched(HEAD + HELPERS[case], path=(fake_torch,)).healthy()
    assert run.spans(SpanCode.EVALUATION)
    found = {note["where"] for note in run.notes("site") if note["what"] == "evaluation"}
    assert found == {f"train.py:{called.get(case, 21)}"}


def test_a_pass_beside_environments_is_called_a_rollout(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = """
import sys
sys.modules["gymnasium"] = object()
for i in range(4):
    with torch.no_grad():
        model.eval()
        time.sleep(0.001)
        model.train()
    step()
"""
    run = watched(HEAD + code, path=(fake_torch,)).healthy()
    assert len(run.spans(SpanCode.EVALUATION)) == 4
    assert "rollout" in {note["what"] for note in run.notes("site")}


PLAYS = """
import torch
model = torch.nn.Linear(8, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for i in range(6):
    model.eval()
    with torch.no_grad():
        for _ in range(20):
            model(torch.randn(SEEN, 8))
    model.train()
    for _ in range(4):
        model(torch.randn(32, 8)).sum().backward()
        optimizer.step()
print("trained", flush=True)
"""


@pytest.mark.parametrize(("seen", "what"), [(1, "rollout"), (16, "rollout"), (32, "evaluation"), (100, "evaluation")])
def test_without_a_loader_a_policy_takes_fewer_samples_than_it_learns_from(
    watched: Callable[..., Any], seen: int, what: str
) -> None:
    pytest.importorskip("torch")
    run = watched(PLAYS.replace("SEEN", str(seen))).healthy()
    assert run.out == "trained\n"
    spans = run.spans(SpanCode.EVALUATION)
    names = {note["id"]: note["what"] for note in run.notes("site")}
    assert [names[span.a] for span in spans] == [what] * 5  # what came before the first step is not told


def test_beside_a_loader_it_is_an_evaluation_all_the_same(watched: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    code = PLAYS.replace("SEEN", "1").replace("for _ in range(4):", "for _ in torch.utils.data.DataLoader(range(4)):")
    run = watched(code).healthy()
    names = {note["id"]: note["what"] for note in run.notes("site")}
    assert {names[span.a] for span in run.spans(SpanCode.EVALUATION)} == {"evaluation"}
