"""A step is divided at torch's own calls, and around its backward pass; nothing of ours is left in its way."""

from collections.abc import Callable
from typing import Any

HEAD = """
import torch
from gputune_guest import dividing, modes, spans, weights
weights._windows = 1 << 20  # it has a mode of its own in the first steps
torch.set_num_threads(1)
depth = torch._C._len_torch_function_stack
class Meeting:
    def __init__(self): self.at = []
    def before(self, copy=False): return None
    def divide(self, passing=False): self.at.append(calls + passing)
met = spans.meeting = Meeting()
calls = 0
dividing.calls = 10
model, x = torch.nn.Linear(8, 8), torch.ones(4, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


def test_a_part_begins_every_so_many_calls_and_around_the_backward_pass(watched: Callable[..., Any]) -> None:
    code = """
model(x).sum().backward()
optimizer.step()
assert dividing.begin() and depth() == 1
for calls in range(25):
    x = x * 1.0
loss = model(x).sum()
calls = 100
loss.backward()
calls = 200
assert depth() == 1
optimizer.step()
assert depth() == 0
for calls in range(300, 350):
    x = x * 1.0
print(*met.at)
"""
    run = watched(HEAD + code).healthy()
    assert [at for at in map(int, run.out.split()) if at <= 100] == [10, 20, 24, 100, 100]
    assert all(at < 300 for at in map(int, run.out.split()))


def test_the_backward_pass_is_divided_where_its_forward_pass_was(watched: Callable[..., Any]) -> None:
    code = """
assert dividing.begin()
for calls in range(25):
    x = x * model.weight[0, 0]
calls = 100
loss = x.sum()
met.at.clear()
loss.backward()
print(*met.at, flush=True)
again = x.detach().requires_grad_() * 1.0
for calls in range(25):
    again = again * 1.0
dividing.end()
met.at.clear()
again.sum().backward()  # what was left for a step that is over
print(*met.at)
"""
    passing, over = watched(HEAD + code).healthy().out.split("\n")[:2]
    assert passing.split()[0] == passing.split()[-1] == "100"
    assert len(passing.split()) > 4
    assert set(passing.split()[1:-1]) == {"101"}
    assert over == ""


def test_what_is_computed_is_the_same(watched: Callable[..., Any]) -> None:
    code = """
def train(divided):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    for step in range(5):
        if divided: assert dividing.begin()
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
    dividing.end()
    return torch.cat([p.detach().flatten() for p in model.parameters()])
assert torch.equal(train(False), train(True))
print(len(met.at) > 0)
"""
    assert watched(HEAD + code).healthy().out == "True\n"


def test_where_a_mode_of_theirs_is_in_place_nothing_is_divided(watched: Callable[..., Any]) -> None:
    code = """
with torch.device("cpu"):
    assert not dividing.can() and not dividing.begin() and depth() == 1
assert dividing.begin()
with torch.device("meta"):
    dividing.end()
    assert depth() == 1 and torch.empty(2).is_meta
assert depth() == 0
"""
    watched(HEAD + code).healthy()


def test_an_error_of_theirs_is_theirs(watched: Callable[..., Any]) -> None:
    code = HEAD + "dividing.begin()\ntorch.ones(2) @ torch.ones(3)\n"
    bare = "Traceback (most recent call last):\n"
    run = watched(code)
    assert run.status == 1
    assert run.err.startswith(bare)
    assert "gputune" not in run.err.replace("from gputune_guest", "")
    assert run.notes("error") == []


def test_nothing_is_divided_once_anything_is_compiled_or_there_are_too_many_parts(watched: Callable[..., Any]) -> None:
    code = """
from gputune_guest import dynamo
assert dividing.begin()
dynamo._first()
assert depth() == 0 and not dividing.can()
"""
    watched(HEAD + code).healthy()
    crowded = "dividing.calls = dividing.MOST_CALLS // 2\ndividing.crowded()\nassert dividing.can()\n"
    watched(HEAD + crowded + "dividing.crowded()\nassert not dividing.begin()\n").healthy()
