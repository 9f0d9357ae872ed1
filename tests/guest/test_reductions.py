"""Where a rank meets the others: the calls of torch.distributed, and DistributedDataParallel's own clocks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.events import CALM_PARTS, QUEUED_BITS, Kind, SpanCode

pytest.importorskip("torch", reason="a real DistributedDataParallel is trained")

JOB = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("store"), rank=0, world_size=1)
torch.manual_seed(0)
"""
REDUCED = (
    JOB
    + """
plain = torch.nn.Linear(8, 4)
model = DistributedDataParallel(plain)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
for _ in range(70):
    step()
with model.no_sync():
    step()
with torch.no_grad():
    model(torch.ones(2, 8))
print(plain._backward_hooks, plain.weight._backward_hooks, sum(p.sum().item() for p in plain.parameters()))
"""
)


def test_ddps_meetings_are_read_from_its_own_clocks_and_it_learns_the_same(watched: Callable[..., Any]) -> None:
    run = watched(REDUCED).healthy()
    met = run.records(Kind.RENDEZVOUS)
    assert len(met) >= 20  # dense at first, pairs of steps after that; the very first has nothing before it
    assert [r.a for r in met] == sorted({r.a for r in met})
    assert {r.b for r in met} == {(8 * 4 + 4) * 4}
    assert {r.c for r in met} == {1 | 1 << 16}
    assert all(0 <= r.code & ((1 << QUEUED_BITS) - 1) <= 1000 for r in met)
    assert {bool(r.code >> QUEUED_BITS) for r in met} == {Path("/proc/thread-self/schedstat").exists()}
    assert max(r.code >> QUEUED_BITS for r in met) <= CALM_PARTS + 1
    assert all(r.t0 <= r.t1 and r.d >= 0 for r in met)
    backward = run.records(Kind.BACKWARD)
    assert all(any(b.t0 <= r.t0 <= r.t1 <= b.t1 for b in backward) for r in met[5:])  # on our clock
    assert run.out == watched(REDUCED, env={"GPUTUNE_RINGS": ""}).out


EVALUATED = (
    JOB
    + """
from gputune_guest import reductions
model = DistributedDataParallel(torch.nn.Linear(8, 4))
for _ in range(40):
    model(torch.ones(2, 8)).sum().backward()
    with torch.no_grad():
        model(torch.ones(2, 8))
(mine,) = reductions._known.values()
print(mine.count, model.logger._get_ddp_logging_data().ints_map["iteration"])
"""
)


def test_forward_passes_of_an_evaluation_are_not_counted_as_ddp_does_not(watched: Callable[..., Any]) -> None:
    ours, theirs = map(int, watched(EVALUATED).healthy().out.split())
    assert ours == 40
    assert theirs <= ours <= theirs + 1  # DDP's figures are of the passes before


CALLED = (
    JOB
    + """
import threading
value = torch.ones(256)
part = dist.new_group([0])
dist.all_reduce(value)
dist.all_reduce(value, group=part)
work = dist.all_reduce(value, async_op=True)
work.wait()
dist.broadcast(value[:2], src=0)
other = threading.Thread(target=lambda: dist.all_reduce(torch.ones(1)))
other.start(); other.join()
dist.barrier()
"""
)


def test_calls_of_all_ranks_are_numbered_and_those_of_some_are_not(watched: Callable[..., Any]) -> None:
    run = watched(CALLED).healthy()
    calls = [r for r in run.spans(SpanCode.COLLECTIVE) if not r.e]
    what = {note["id"]: note["what"].rpartition(".")[2] for note in run.notes("site")}
    told = [(what[r.a], r.b, r.d, r.c) for r in calls if what[r.a] in {"all_reduce", "broadcast", "wait", "barrier"}]
    numbers = [number for _, _, number, _ in told if number]
    assert numbers == list(range(numbers[0], numbers[0] + 4))
    assert [(name, size, bool(number)) for name, size, number, _ in told] == [
        ("all_reduce", 1024, True),
        ("all_reduce", 1024, False),
        ("all_reduce", 1024, True),
        ("wait", 0, False),
        ("broadcast", 8, True),
        ("barrier", 0, True),
    ]
    assert {ranks for _, _, number, ranks in told if number} == {1}
