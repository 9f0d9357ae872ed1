"""The device's own clock at the batch boundaries: it must never be initialised by us, nor waited for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.events import Kind, SegmentCode

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


HOST = """
import time, torch
from torch.utils.data import DataLoader
class Quick:
    def __len__(self): return 400
    def __getitem__(self, i): return i
torch.cuda.initialized = True
def host(ms):
    until = time.monotonic() + ms / 1e3
    while time.monotonic() < until: pass
"""

STEPS = (
    HOST
    + """
for batch in DataLoader(Quick(), batch_size=1):
    for _ in range(4):
        host(0.3)
        torch.cuda.work(0.2)
    torch.cuda.synchronize()
"""
)


def test_work_between_waits_is_timed_by_holding_the_device_back(watched: Callable[..., Any], fake_torch: Path) -> None:
    run = watched(STEPS, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    parts = [part for part in run.records(Kind.SEGMENT) if not part.b]  # what comes behind the wait is next to nothing
    assert parts
    assert all(part.code & SegmentCode.HELD and part.e > 0 for part in parts)
    for part in parts:
        assert part.a == pytest.approx(800_000, rel=0.02)  # not the 1.2 ms and more that the host takes to queue it
    waits = [step.b for step in run.records(Kind.DEVICE)]
    assert len(waits) > 40


GRAPH = (
    HOST
    + """
for batch in DataLoader(Quick(), batch_size=1):
    host(10)
    torch.cuda.synchronize()
    torch.cuda.work(12)
    torch.cuda.synchronize()
"""
)


def test_one_launch_that_takes_long_is_a_part_that_holds_work(watched: Callable[..., Any], fake_torch: Path) -> None:
    """As the replay of a graph is, which the host queues in 50 us: it was taken for nothing."""
    run = watched(GRAPH, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    assert all(step.c & 2 for step in run.records(Kind.DEVICE))
    long = [part.a for part in run.records(Kind.SEGMENT) if part.b == 1]
    assert long
    assert all(took == pytest.approx(12_000_000, rel=0.02) for took in long)


def test_holding_back_costs_next_to_nothing_and_can_be_forbidden(watched: Callable[..., Any], fake_torch: Path) -> None:
    run = watched(STEPS, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    assert sum(part.e for part in run.records(Kind.SEGMENT)) <= 50e6 + 0.003 * 400 * 20e6
    for forbids in ("GPUTUNE_GUEST_PERTURB", "GPUTUNE_TRIAL"):
        env = {"FAKE_CUDA": "12.4", forbids: "0" if forbids == "GPUTUNE_GUEST_PERTURB" else '{"batches": 100}'}
        assert watched(STEPS, path=(fake_torch,), env=env).healthy().records(Kind.SEGMENT) == []


APART = (
    HOST
    + """
exact = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, other: 0.99 * exact(self, other)
torch.cuda.work(100)
for batch in DataLoader(Quick(), batch_size=1):
    host(6)
    torch.cuda.work(6)
    print(torch.cuda._clock[0] - time.monotonic() * 1e3)
"""
)


def test_clocks_that_come_apart_mislead_by_no_more_than_a_step(watched: Callable[..., Any], fake_torch: Path) -> None:
    """An H100's fell behind its host's by 23 us a second. This one is behind from the first step on, and off by 1 %."""
    run = watched(APART, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    behind = [max(0.0, float(line)) for line in run.out.split()]
    off = sorted(abs((gap.c - 1) / 1e3 - behind[gap.d - 1]) for gap in run.records(Kind.GAP)[4:-1])
    assert len(off) > 40
    assert max(behind) > 90
    assert off[int(0.9 * len(off))] < 2 * 6


PASSES = (
    HOST
    + """
for batch in DataLoader(Quick(), batch_size=1):
    torch.autograd.backward()
    host(0.5)
    torch.cuda.work(0.3)
    torch.autograd.backward()  # the last one counts
    host(0.5)
    torch.cuda.work(0.2)
"""
)


def test_of_a_held_part_it_is_told_what_came_behind_the_backward_pass(
    watched: Callable[..., Any], fake_torch: Path
) -> None:
    run = watched(PASSES, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    held = [part for part in run.records(Kind.SEGMENT) if part.code & SegmentCode.HELD]
    assert held
    for part in held:
        assert (part.a, part.d - 1) == (pytest.approx(500_000, rel=0.02), pytest.approx(200_000, rel=0.02))


LONG = """
import time, torch
from torch.utils.data import DataLoader
class Quick:
    def __len__(self): return 160
    def __getitem__(self, i): return i
torch.cuda.initialized = True
for batch in DataLoader(Quick(), batch_size=1):
    torch.cuda.work(0.5)
    until = time.monotonic() + 0.015
    while time.monotonic() < until: pass
    torch.cuda.work(0.5)
    WAITS
"""


@pytest.mark.parametrize(("waits", "least", "most"), [("pass", 4, 20), ("torch.cuda.synchronize()", 0, 3)])
def test_a_hold_that_the_device_made_up_for_has_cost_nothing(
    watched: Callable[..., Any], fake_torch: Path, waits: str, least: int, most: int
) -> None:
    """Steps of 15 ms on the host and one on the device: three holds would be more than may be spent in 3 s."""
    run = watched(LONG.replace("WAITS", waits), path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    held = [part for part in run.records(Kind.SEGMENT) if part.code & SegmentCode.HELD and part.e > 5_000_000]
    assert least <= len(held) <= most


MANY = """
import time, torch
from torch.utils.data import DataLoader
from gputune_guest import budget, dividing
class Quick:
    def __len__(self): return 160
    def __getitem__(self, i): return i
torch.cuda.initialized = True
torch.cuda.queue = QUEUE
dividing.calls = 8
budget.AHEAD *= 20  # what is tried here is not how seldom it is done
for batch in DataLoader(Quick(), batch_size=1):
    for _ in range(40):
        time.sleep(0.0003)
        torch.cuda.called(0.1)
    torch.cuda.synchronize()
"""


def test_a_step_of_more_launches_than_the_queue_holds_is_divided(watched: Callable[..., Any], fake_torch: Path) -> None:
    run = watched(MANY.replace("QUEUE", "16"), path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    parts = [part for part in run.records(Kind.SEGMENT) if part.code & SegmentCode.DIVIDED]
    assert {part.b for part in parts} >= set(range(5))
    for part in parts:
        assert part.a == pytest.approx(800_000 if part.b < 5 else 0, rel=0.05)
    divided = [step for step in run.records(Kind.DEVICE) if step.code & SegmentCode.DIVIDED]
    assert 2 <= len(divided) < 40
    whole = {gap.t0 for gap in run.records(Kind.GAP)}
    assert not {step.t1 for step in divided} & whole
    assert all(part.code & SegmentCode.DIVIDED for part in run.records(Kind.SEGMENT))


def test_a_step_that_the_queue_holds_is_not_divided(watched: Callable[..., Any], fake_torch: Path) -> None:
    run = watched(MANY.replace("QUEUE", "64"), path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    assert any(part.code & SegmentCode.HELD for part in run.records(Kind.SEGMENT))


BEHIND = """
import time, torch
from torch.utils.data import DataLoader
class Quick:
    def __len__(self): return 40
    def __getitem__(self, i): return i
torch.cuda.initialized = True
for batch in DataLoader(Quick(), batch_size=1):
    torch.cuda.work(12)
    time.sleep(0.006)
time.sleep(0.1)
"""


def test_a_device_that_falls_behind_is_seen_to_and_needs_no_hold(watched: Callable[..., Any], fake_torch: Path) -> None:
    run = watched(BEHIND, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    gaps = run.records(Kind.GAP)
    lags = [gap.c - 1 for gap in gaps]
    assert all(lag > 0 for lag in lags)
    assert lags[-1] - lags[1] == pytest.approx(6_000 * (gaps[-1].d - gaps[1].d), rel=0.5)
    parts = run.records(Kind.SEGMENT)
    assert parts
    assert {part.code for part in parts} == {0}
    assert all(part.a == pytest.approx(12_000_000, rel=0.05) for part in parts)


EARLIER = (
    HOST
    + """
from torch.cuda.streams import Stream
earlier = Stream()
for batch in DataLoader(Quick(), batch_size=1):
    for _ in range(20):
        torch.cuda.work(1)
        earlier.synchronize()
        earlier = Stream()
"""
)


def test_a_host_that_waits_for_earlier_work_alone_leaves_the_device_none_the_less_to_do(
    watched: Callable[..., Any], fake_torch: Path
) -> None:
    """The device is never more than two pieces behind, and never without one: a step is worked off in one go."""
    run = watched(EARLIER, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    whole = [part for part in run.records(Kind.SEGMENT) if part.c == 1 and not part.e]  # the host was never late
    assert len(whole) > 20
    took = sorted(part.a for part in whole)
    assert took[len(took) // 2] == pytest.approx(20_000_000, rel=0.03)  # of one a short hold is
    assert took == pytest.approx([20_000_000] * len(took), abs=2_100_000)  # two pieces: the host may lose its CPU
    waits = [step.b for step in run.records(Kind.DEVICE)]
    assert sorted(waits)[len(waits) // 2] > 15_000_000


TURNS = """
import time, torch
from torch.utils.data import DataLoader
class Quick:
    def __len__(self): return 60
    def __getitem__(self, i): return i
torch.cuda.initialized = True
for n, batch in enumerate(DataLoader(Quick(), batch_size=1)):
    torch.cuda.current = n // EACH % 2
    torch.cuda.work(4)
    time.sleep(0.006)
"""


def test_a_training_that_changes_devices_is_timed_on_each(watched: Callable[..., Any], fake_torch: Path) -> None:
    run = watched(TURNS.replace("EACH", "10"), path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    steps = [gap.d - 1 for gap in run.records(Kind.GAP)]
    assert {n // 10 for n in steps} == set(range(6))
    assert not {n for n in steps if n % 10 == 0 and n}  # they began on one device and ended on the other
    assert all(part.a == pytest.approx(4_000_000, rel=0.1) for part in run.records(Kind.SEGMENT))


def test_steps_that_begin_and_end_on_two_devices_are_not_timed(watched: Callable[..., Any], fake_torch: Path) -> None:
    run = watched(TURNS.replace("EACH", "1"), path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy()
    assert {gap.d for gap in run.records(Kind.GAP)} <= {1}
    assert len(run.records(Kind.BATCH)) == 61


LOST = LOOP.replace("INITIALISED", "True").replace(
    "for batch",
    """
def lost(*_): raise RuntimeError('CUDA error: unspecified launch failure\\nSearch for it')
for n, batch""",
)
LOST = LOST.replace("in DataLoader(Slow(), batch_size=1):", "in enumerate(DataLoader(Slow(), batch_size=1)):")


def test_a_device_that_fails_is_told_and_is_no_error_of_ours(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = LOST + "    if n == 3: torch.cuda.Event.query = torch.cuda.Event.record = lost\n"
    (told,) = watched(code, path=(fake_torch,), env={"FAKE_CUDA": "12.4"}).healthy().notes("failed")
    assert (told["what"], told["ended"]) == ("CUDA error: unspecified launch failure", False)
    assert str(told["where"]).startswith("train.py:")


def test_a_device_error_that_ends_a_script_is_told_with_its_line(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = LOST + "    if n == 3: lost()\n"
    run = watched(code, path=(fake_torch,), env={"FAKE_CUDA": "12.4"})
    (told,) = run.notes("failed")
    assert (run.status, run.notes("error")) == (1, [])
    assert (told["what"], told["ended"]) == ("CUDA error: unspecified launch failure", True)
    line = next(n for n, text in enumerate(code.splitlines(), start=1) if text.startswith("def lost"))
    assert told["where"] == f"train.py:{line}"


def test_a_torch_for_cuda_that_trains_without_it_is_told_once(watched: Callable[..., Any], fake_torch: Path) -> None:
    code = LOOP.replace("INITIALISED", "False").replace("torch.cuda.work(10)", "pass")
    env = {"FAKE_CUDA": "12.4", "CUDA_VISIBLE_DEVICES": ""}
    (told,) = watched(code, path=(fake_torch,), env=env).healthy().notes("unused")
    assert (told["cuda"], told["visible"], told["forked"]) == ("12.4", "", False)
