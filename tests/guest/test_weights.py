"""What a loop without a DataLoader does to its weights is told apart from the making of batches."""

import textwrap
from collections.abc import Callable
from typing import Any

from gputune.core.events import ForwardCode, Kind

HEAD = """
import time, torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(20)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
params = list(model.parameters())
ema = [p.detach().clone() for p in params]
average = {name: value.clone() for name, value in model.state_dict().items()}
depth = torch._C._len_torch_function_stack
"""
LOOP = """
for step in range({steps}):
    x = torch.randn(4, 64)
    loss = model(x).square().mean()
    assert depth() == {depth}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{after}
"""
BATCH = "data = torch.stack([torch.randn(64) for _ in range(300)]); data.sub_(data.mean(0)).div_(data.std(0))"
IN_PLACE = "for e, p in zip(ema, params): e.mul_(0.9).add_(p.detach(), alpha=0.1)"
ON_WEIGHTS = [
    IN_PLACE,
    "torch._foreach_mul_(ema, 0.9); torch._foreach_add_(ema, [p.detach() for p in params], alpha=0.1)",
    "for e, p in zip(ema, params): e.data.mul_(0.9).add_(p.data, alpha=0.1)",
    "ema[:] = [e * 0.9 + p.detach() * 0.1 for e, p in zip(ema, params)]",
    "for k, v in model.state_dict().items(): average[k].lerp_(v, 0.1)",
    "for p in params: p.data.clamp_(-1, 1)",
    "norms = [p.grad.norm() for p in params]",
]
EACH = 3  # steps of each kind: in the first of them copies of the weights become known


def test_work_on_the_weights_is_known_however_it_is_written(watched: Callable[..., Any]) -> None:
    kinds = [BATCH, *ON_WEIGHTS]
    after = "    took = -time.monotonic_ns()\n"
    after += "".join(f"    if (step - 3) // {EACH} == {number}:\n        {kind}\n" for number, kind in enumerate(kinds))
    after += "    print(took + time.monotonic_ns())\n"
    run = watched(HEAD + LOOP.format(steps=len(kinds) * EACH + 5, depth=0, after=after)).healthy()
    forwards = run.records(Kind.FORWARD)
    looked = [bool(f.code & ForwardCode.LOOKED) for f in forwards]
    assert looked == [False] * 4 + [True] * (len(kinds) * EACH - 1) + [False]
    shares = [f.a / int(took) for f, took in zip(forwards, run.out.split(), strict=False)][3:]
    known = [shares[first + 1 : first + EACH] for first in range(0, len(kinds) * EACH, EACH)]
    assert max(known[0]) < 0.1
    assert [0.5 < max(pair) < 1.1 for pair in known[1:]] == [True] * len(ON_WEIGHTS), known


def test_where_a_mode_of_theirs_is_in_place_nothing_is_looked_at(watched: Callable[..., Any]) -> None:
    loop = LOOP.format(steps=14, depth=1, after="    " + IN_PLACE)
    run = watched(HEAD + 'with torch.device("cpu"):\n' + textwrap.indent(loop, "    ")).healthy()
    assert {f.code & ForwardCode.LOOKED for f in run.records(Kind.FORWARD)} == {0}


def test_a_mode_that_they_enter_meanwhile_stays_theirs(watched: Callable[..., Any]) -> None:
    code = """
for step in range(14):
    with torch.device("meta"):
        assert torch.empty(2).is_meta
        loss = model(torch.randn(4, 64, device="cpu")).square().mean()
        assert depth() == 1
        assert torch.empty(2).is_meta
    assert depth() == 0
    assert not torch.empty(2).is_meta
    loss.backward()
    optimizer.step()
    for e, p in zip(ema, params): e.lerp_(p.detach(), 0.1)
"""
    run = watched(HEAD + code).healthy()
    assert any(f.code & ForwardCode.LOOKED for f in run.records(Kind.FORWARD))


def test_a_script_that_calls_no_module_is_let_alone_after_each_step(watched: Callable[..., Any]) -> None:
    code = """
weight = torch.nn.Parameter(torch.ones(8))
optimizer = torch.optim.SGD([weight], lr=0.01)
for step in range(30):
    (weight * torch.randn(8)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
model(torch.zeros(1, 64))
assert depth() == 0
"""
    watched(HEAD + code).healthy()


def test_their_errors_stay_theirs(watched: Callable[..., Any]) -> None:
    after = """
    try:
        torch.stack([])
    except RuntimeError:
        pass
    else:
        raise SystemExit("no error")
"""
    watched(HEAD + LOOP.format(steps=8, depth=0, after=after)).healthy()


def test_work_on_the_device_is_told_from_work_for_it(watched: Callable[..., Any]) -> None:
    """The device is torch's own one without memory behind it, taken for one that has a queue."""
    code = """
import sys
from torch.utils.data import DataLoader
sys.modules["gputune_guest.weights"].HOST = frozenset(["cpu"])
torch.cuda.is_initialized = lambda: True
for number, batch in enumerate(DataLoader(torch.zeros(120, 64), batch_size=4)):
    on_device = batch.to("meta")
    if number % 2:
        began = time.monotonic_ns()
        for _ in range(100):
            on_device = on_device * 2 + on_device.mean()
        took = time.monotonic_ns() - began
    else:
        batch = torch.stack([row * 2 for row in batch for _ in range(50)])[:4]
        took = 0
    model(batch).mean().backward()
    optimizer.step()
    print(took)
    assert depth() == 0
"""
    run = watched(HEAD + code).healthy()
    forwards = [
        (f.b, f.t1 - f.t0, int(took)) for f, took in zip(run.records(Kind.FORWARD), run.out.split(), strict=False)
    ]
    looked = forwards[4:26]
    assert all(queued <= 0.2 * whole for queued, whole, took in looked if not took)
    assert all(0.3 * took < queued <= took for queued, _, took in looked if took)


def test_nothing_of_ours_is_in_place_where_something_is_compiled_or_holds_no_data(watched: Callable[..., Any]) -> None:
    code = """
from torch._subclasses.fake_tensor import FakeTensorMode
def fakes():
    with FakeTensorMode():
        for _ in range(150):
            torch.empty(3) * 2
def double(x):
    return x * 2
for step in range(8):
    model(torch.randn(4, 64)).square().mean().backward()
    optimizer.step()
    if step == 5:
        fakes()
assert depth() == 1  # nobody knows yet that no module follows
torch.compile(double, backend="eager", fullgraph=True)(torch.ones(3))
assert depth() == 0
"""
    run = watched(HEAD + code).healthy()
    assert not run.err
