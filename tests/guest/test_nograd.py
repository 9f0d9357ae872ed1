"""Evaluations with neither a loader nor `eval()`: blocks with gradients off that come seldom, and call a model."""

from collections.abc import Callable
from typing import Any

import pytest

from gputune.core.events import SpanCode

CODE = """
import time, torch

net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.ones(2, 4)

def step():
    net(x).sum().backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()

def long(function=lambda: net(x)):
    function()
    time.sleep(0.002)

@torch.no_grad()
def decorated(): long()

def block():
    with torch.no_grad(): long()

def inference():
    with torch.inference_mode(): long()

def short():
    with torch.no_grad(): net(x)

def no_model():
    with torch.no_grad(): long(lambda: x + 1)

searching = torch.optim.LBFGS(net.parameters(), lr=0.01, max_iter=20)

def closure():
    searching.zero_grad()
    loss = net(x).square().sum()
    loss.backward()
    time.sleep(0.001)
    return loss

def pieces():
    for _ in range(3):
        block()

def switched():
    with torch.no_grad():
        net.eval()
        long()
        net.train()

def scripted(x: torch.Tensor):
    with torch.no_grad():
        return x + 1
scripted = torch.jit.script(scripted)

def train(seldom, often=lambda: None):
    for number in range(12):
        often()
        scripted(x)
        step()
        if number % 4 == 3:
            seldom()
    print("trained", flush=True)
"""


WHERE = CODE[: CODE.index("seldom()\n    print")].count("\n") + 1  # that calls for them, where the training is


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        # each comes three times, `pieces` three times three; `switched` is told by its eval() and train() alone
        ("train(decorated); train(block); train(inference); train(pieces); train(switched)", 21),
        # and none of these: a teacher, which comes with every step, what is too short, and what calls no model
        ("train(lambda: None, often=block); train(short); train(no_model)", 0),
        # with a loader, what comes before the first step may be an evaluation as well
        ("for _ in torch.utils.data.DataLoader([1]): block(), train(block)", 3),
        # rollouts: what is learnt from has to be there before the first step
        ("[block(), train(block)]", 0),
        ("for _ in range(3): block(), [step() for _ in range(16)]\nprint('trained')", 0),
        # an optimizer that calls the model itself
        ("for _ in range(6): searching.step(closure)\nprint('trained')", 0),
    ],
)
def test_a_block_is_an_evaluation_where_it_comes_seldom_and_calls_a_model(
    watched: Callable[..., Any], kinds: str, told: int
) -> None:
    pytest.importorskip("torch")
    run = watched(CODE + kinds).healthy()
    assert run.out == "trained\n" * len(kinds.split(";"))
    spans = run.spans(SpanCode.EVALUATION)
    assert len(spans) == told
    assert all(span.t1 - span.t0 >= 1_000_000 for span in spans)
    places = {note["id"]: note["where"] for note in run.notes("site")}
    assert {places[span.a] for span in spans} <= {f"train.py:{WHERE}"}


@pytest.mark.parametrize(("every", "told"), [(1, 0), (2, 5)])
def test_a_teacher_comes_with_every_batch_of_which_several_steps_may_be_made(
    watched: Callable[..., Any], every: int, told: int
) -> None:
    pytest.importorskip("torch")
    loop = f"for n in torch.utils.data.DataLoader(range(12)): n % {every} or block(), step(), step()\n"
    assert len(watched(CODE + loop).healthy().spans(SpanCode.EVALUATION)) == told


def test_a_teacher_of_the_first_batch_of_a_pass_comes_with_each_as_well(watched: Callable[..., Any]) -> None:
    pytest.importorskip("torch")
    loop = "for _ in range(3):\n    for n in torch.utils.data.DataLoader(range(4)): block(), step(), step()\n"
    assert watched(CODE + loop).healthy().spans(SpanCode.EVALUATION) == []
