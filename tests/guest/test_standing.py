"""For how long a device stands still for other ranks: told from its own clock, and never waited for."""

from collections.abc import Callable
from typing import Any

import pytest

from gputune.core.events import Kind, RendezvousCode

pytest.importorskip("torch", reason="a real autograd engine runs the passes")

DEVICE = """
import os, sys, time, torch, torch.distributed as dist
from gputune_guest import device, standing
host = time.monotonic
class Event:
    def __init__(self, enable_timing): pass
    def record(self, stream=None): self.at = cuda.now = max(cuda.now, host())
    def query(self): return host() >= self.at
    def elapsed_time(self, other): return (other.at - self.at) * 1e3
    def synchronize(self): raise AssertionError("the guest waits for the device")
class cuda:
    now = 0.0
    Event = Event
    is_initialized = staticmethod(lambda: True)
    current_stream = staticmethod(lambda: "compute")
    is_current_stream_capturing = staticmethod(bool)
    @staticmethod
    def work(s): cuda.now = max(cuda.now, host()) + s
device.clock = device.Clock(cuda)
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=0, world_size=1)
mine = standing.begin()
"""
REDUCED = (
    DEVICE
    + """
from torch.nn.parallel import DistributedDataParallel
engine = torch.autograd.Variable._execution_engine
class Reduced(torch.autograd.Function):  # as DDP does: what waits is queued once all gradients are there
    @staticmethod
    def forward(ctx, x): return x.clone()
    @staticmethod
    def backward(ctx, gradient):
        cuda.work(0.004)
        engine.queue_callback(lambda: cuda.work(0.006))
        return gradient
weight = torch.ones(4, requires_grad=True)
for number in range(60):
    cuda.work(0.002)
    mine.met = mine.reduces = True
    Reduced.apply(weight).sum().backward()
    while cuda.now > host() + 0.02: time.sleep(0.001)
print(weight.grad.tolist(), weight._backward_hooks, mine.rounds)
"""
)


def test_what_a_device_stands_between_its_gradients_and_the_next_step_is_told(watched: Callable[..., Any]) -> None:
    run = watched(REDUCED).healthy()
    assert run.out.split("\n")[0] == "[60.0, 60.0, 60.0, 60.0] None 60"
    met = run.records(Kind.RENDEZVOUS)
    assert [r.a for r in met][:8] == list(range(2, 10))  # the first one has no begin
    assert set(range(2, 30)) <= {r.a for r in met}
    assert all(r.a % 7 == 1 for r in met if r.a > 32)  # the second of each pair
    assert all(r.code & RendezvousCode.ON_DEVICE and r.code & RendezvousCode.STOOD for r in met)
    settled = [r for r in met if r.a > 3]
    assert all(r.e == pytest.approx(6e6, abs=1.5e6) for r in settled)
    assert all(r.d == pytest.approx(6e6, abs=3e6) for r in settled)
    assert all(r.t0 <= r.t1 for r in met)


CALLED = (
    DEVICE
    + """
class Part:  # of a tensor on a device
    is_cuda = True
    def element_size(self): return 4
    def nelement(self): return 250
from gputune_guest import collective
reduce = collective._met(lambda part: cuda.work(0.005), "torch.distributed.all_reduce", shared=True)
weight = torch.ones(4, requires_grad=True)
for number in range(20):
    cuda.work(0.010)
    weight.sum().backward()
    reduce(Part())
    if number > 10:
        continue
    reduce(Part())
while mine.pending:
    time.sleep(0.001)
    mine._collect()
print(mine.rounds)
"""
)


def test_calls_on_the_trainings_own_stream_are_stands_too(watched: Callable[..., Any]) -> None:
    run = watched(CALLED).healthy()
    assert int(run.out) == 19  # the last calls belong to a backward pass that does not come
    met = {r.a: r for r in run.records(Kind.RENDEZVOUS)}
    assert met[5].e == pytest.approx(10e6, abs=2e6)
    assert met[5].d == pytest.approx(10e6, abs=2e6)
    assert (met[5].b, met[5].c) == (2000, 1 | 2 << 16)
    assert met[15].e == pytest.approx(5e6, abs=2e6)


SHARDED = CALLED.replace("weight = torch", "fetch = standing.gather(lambda: cuda.work(0.003))\nweight = torch").replace(
    "weight.sum()", "number > 10 and fetch()\n    weight.sum()"
)


def test_rounds_for_which_weights_are_gathered_say_so(watched: Callable[..., Any]) -> None:
    met = {r.a: r for r in watched(SHARDED).healthy().records(Kind.RENDEZVOUS)}
    assert not any(r.code & RendezvousCode.GATHERED for number, r in met.items() if number <= 10)
    assert all(r.code & RendezvousCode.GATHERED for number, r in met.items() if number > 12)
    assert met[15].e == pytest.approx(8e6, abs=2e6)


SLOW_HOST = CALLED.replace("cuda.work(0.005)", "time.sleep(0.002)").replace("cuda.work(0.010)", "cuda.work(0.001)")


def test_a_device_that_waits_for_its_host_stands_for_nobody(watched: Callable[..., Any]) -> None:
    met = watched(SLOW_HOST).healthy().records(Kind.RENDEZVOUS)
    assert len(met) >= 10
    assert sum(r.e == 0 for r in met) >= 0.8 * len(met)


IN_STEPS = (
    CALLED[: CALLED.index("for number")]
    + """
import types
from gputune_guest import ring, spans
ring.here.phase, ring.here.trainer = None, spans.get_ident()
optimizer = types.SimpleNamespace(count=0)
for number in range(60):
    cuda.work(0.004)
    weight.sum().backward()
    reduce(Part())
    cuda.work(0.002)
    optimizer.count += 1
    device.clock.stepped(optimizer, ring.now())
    while cuda.now > host() + 0.05: time.sleep(0.001)
"""
)


def test_what_a_device_stands_in_a_timed_step_is_told_of_each_and_none_of_its_work(watched: Callable[..., Any]) -> None:
    run = watched(IN_STEPS).healthy()
    stood = [r.b for r in run.records(Kind.CROSSED)]
    assert len(stood) > 35  # more than the rounds that are sampled
    assert all(each == pytest.approx(5e6, abs=1e6) for each in stood[3:])
    took = [r.a for r in run.records(Kind.SEGMENT)]
    assert len(took) > 35
    assert all(each == pytest.approx(6e6, abs=1e6) for each in took[3:])


HALVES = """
waits, goes_on = standing.gather(lambda: (cuda.work(0.004), use())), lambda: cuda.work(0.003)
use = standing.over(goes_on)
"""


def test_a_stand_is_over_where_what_was_waited_for_is_used(watched: Callable[..., Any]) -> None:
    code = CALLED.replace("weight = torch", HALVES + "weight = torch").replace("weight.sum()", "waits(); weight.sum()")
    met = {r.a: r for r in watched(code).healthy().records(Kind.RENDEZVOUS)}
    assert met[15].e == pytest.approx(9e6, abs=2e6)  # 4 in it, and the call's 5
    assert met[15].d == pytest.approx(13e6, abs=2e6)


def test_a_stand_goes_on_behind_one_inside_of_it(watched: Callable[..., Any]) -> None:
    around = "last = standing.gather(lambda: (waits(), cuda.work(0.002)))\n"
    code = CALLED.replace("weight = torch", HALVES + around + "weight = torch")
    met = {r.a: r for r in watched(code.replace("weight.sum()", "last(); weight.sum()")).records(Kind.RENDEZVOUS)}
    assert met[15].e == pytest.approx(11e6, abs=2e6)
    assert met[15].d == pytest.approx(13e6, abs=2e6)
