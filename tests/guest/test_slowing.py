"""The training thread is slowed down for a few rounds: seldom, briefly, and no number of the script's changes."""

import importlib.util
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

from gputune.core.events import DelayCode, Kind, Record
from tests.guest.conftest import GUEST, Watched
from tests.guest.training import TRAINING

SOON = """
from gputune_guest import slowing
slowing.FIRST_NS, slowing.CALM, slowing.UNLIKE = 0, 0, 1e9  # whatever else goes on on this machine
"""
PURE = {"GPUTUNE_GUEST_PURE": "1"}


def slowed(run: Watched, process: int | None = None) -> list[Record]:
    return [record for record in run.records(Kind.DELAY, process) if record.code == DelayCode.SLOWS]


def code(call: str, *, batches: int = 300, step: float = 0.004, more: str = "", soon: str = SOON) -> str:
    return f"batches, making, step = {batches}, 0, {step}\n{soon}\n{TRAINING}\n{more}\n{call}\n"


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch")


def islanded() -> Any:
    """Load the module by itself: whose turn it is needs nothing else."""
    package, names = (
        ModuleType("gputune_guest"),
        ("delaying", "filling", "ranks", "ring", "spans", "wrapping"),
    )
    for name in names:
        setattr(package, name, ModuleType(name))
    package.ring.now = package.ring.here = None  # type: ignore[attr-defined]
    package.wrapping.after_fork = lambda _: None  # type: ignore[attr-defined]
    loaded: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "gputune_guest", package)
        for name in ("budget", "slowing"):
            spec = importlib.util.spec_from_file_location(
                f"gputune_guest.{name}", GUEST / "gputune_guest" / f"{name}.py"
            )
            assert spec is not None
            assert spec.loader is not None
            loaded[name] = importlib.util.module_from_spec(spec)
            patch.setitem(sys.modules, f"gputune_guest.{name}", loaded[name])
            setattr(package, name, loaded[name])
            spec.loader.exec_module(loaded[name])
    return loaded["slowing"]


slowing = islanded()


def taken(rank: int, world: int, *, passes: int = 20_000, each: int = 1) -> list[int]:
    """Return when a rank takes its turns that looks each so many backward passes."""
    turns = slowing.Turns(rank, world, 0.003)
    when = []
    for now in range(0, passes, each):
        if turns.mine(now):
            turns.take()
            when.append(now)
    return when


@pytest.mark.parametrize("world", [1, 2, 10])
def test_ranks_take_turns_without_a_word(world: int) -> None:
    each = [taken(rank, world) for rank in range(world)]
    every = sorted(now for when in each for now in when)
    assert every[0] >= slowing.FIRST
    assert min(b - a for a, b in pairwise(every)) >= 3 * slowing.ROUNDS
    assert max(map(len, each)) - min(map(len, each)) <= 2
    later = [b - a for a, b in pairwise(every)][slowing.EAGER * world :]
    assert sum(later) / len(later) == pytest.approx(slowing.ROUNDS * slowing.PART / 0.003, rel=0.15)
    assert max(later) > 2 * min(later)  # no rhythm


def test_a_rank_that_looks_seldom_meets_its_turns_and_nobody_elses() -> None:
    often, seldom = (taken(1, 3, each=each) for each in (1, 40))
    assert len(seldom) >= 0.7 * len(often)
    for now in seldom:
        assert any(now - 40 - 100 <= due <= now for due in often)
    assert Counter(now in set(seldom) for now in taken(0, 3, each=40))[True] == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_every_number_is_the_same_and_it_costs_what_it_may(watched: Callable[..., Any], workers: int) -> None:
    run = watched(code(f"train(num_workers={workers})", step=0.006, batches=500)).healthy()
    records = slowed(run)
    blocks = Counter(record.b for record in records)
    assert len(blocks) >= 2
    assert max(blocks.values()) == slowing.ROUNDS  # of one that lasted too long the rest is left alone
    assert all(record.t1 > record.t0 for record in records)
    passive = watched(code(f"train(num_workers={workers})", batches=500), env={"GPUTUNE_GUEST_PERTURB": "0"}).healthy()
    assert slowed(passive) == []
    assert run.out == passive.out


def test_without_a_loader_it_is_behind_the_step(watched: Callable[..., Any]) -> None:
    loop = """
net = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
for _ in range(400):
    loss = net(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
    time.sleep(step)
"""
    run = watched(code(loop)).healthy()
    records = slowed(run)
    assert records
    assert {record.a for record in records} == {0}
    steps = [step.t0 for step in run.records(Kind.STEP)]
    for record in records:
        assert 0 <= record.t0 - max(t for t in steps if t <= record.t0) < 50_000_000


@pytest.mark.parametrize(
    ("call", "env"),
    [
        ("train()", {"GPUTUNE_GUEST_PERTURB": "0"}),
        ("train()", {"GPUTUNE_TRIAL": '{"batches": 100000}'}),
        ("train()", PURE),
        ("batches = 60\ntrain()", {}),
        ("slowing.LEAST = 10**12\ntrain()", {}),  # no round of a slow machine is as long
        ("sys.settrace(lambda *_: None)\ntrain()", {}),
        ("class Data(Data):\n def __getitem__(self, i):\n  time.sleep(i % 40 == 0); return super().__getitem__(i)\n"
         "batches, slowing.UNLIKE = 40, 0.5\ntrain()", {}),
        ("thread = threading.Thread(target=train); thread.start(); train(); thread.join()", PURE),
    ],
    ids=["passive", "trial", "no-c", "a-short-run", "next-to-no-round", "debugger", "unlike", "no-c-and-a-thread"],
)  # fmt: skip
def test_it_is_not_done_where_nothing_can_be_learnt_or_somebody_may_notice(
    watched: Callable[..., Any], call: str, env: dict[str, str]
) -> None:
    run = watched(code(call, batches=200), env=env)
    assert run.status == 0, run.err
    assert slowed(run) == []


def test_a_signal_ends_it_for_good_and_its_handler_runs_in_the_script(watched: Callable[..., Any]) -> None:
    handler = """
count = 0
def handler(*_):
    global count
    count += 1
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
"""
    run = watched(code("train()\nsignal.setitimer(signal.ITIMER_REAL, 0)\nprint(count > 100)", more=handler, step=0.03))
    assert run.status == 0, run.err
    assert len(slowed(run)) == 1
    assert run.out.endswith("True\n")


def test_what_a_handler_raises_comes_up_in_the_script(watched: Callable[..., Any]) -> None:
    handler = """
def handler(*_): raise RuntimeError("worker died")
signal.signal(signal.SIGALRM, handler)
alarm = time.sleep
def sleep(s):
    alarm(s)
    if slowing.under_way(): signal.setitimer(signal.ITIMER_REAL, 0.001)
time.sleep = sleep
"""
    run = watched(code("train()", more=handler, step=0.05))
    assert run.status == 1
    assert "RuntimeError: worker died" in run.err
    assert "gputune" not in run.err
    assert 1 <= len(slowed(run)) <= 2


def test_a_failing_loader_ends_it(watched: Callable[..., Any]) -> None:
    failing = """
class Failing(Data):
    def __getitem__(self, index):
        if threading.current_thread() and here.slowed == 5: raise ValueError("bad sample")
        return super().__getitem__(index)
from gputune_guest.ring import here
Data = Failing
"""
    call = "try: train()\nexcept ValueError: pass\ntrain()"
    run = watched(code(call, more=failing))
    assert run.status == 0, run.err
    assert len(slowed(run)) == 3


def test_a_lock_that_is_held_while_it_waits_is_held_no_longer_than_that(watched: Callable[..., Any]) -> None:
    """Another thread wants it all the time."""
    locked = """
lock, longest, over = threading.Lock(), 0.0, False
def want():
    global longest
    while not over:
        t = time.monotonic()
        with lock: pass
        longest = max(longest, time.monotonic() - t)
        time.sleep(0.001)
base = DataLoader.__iter__
class Locked:
    def __init__(self, loader): self.it = base(loader)
    def __iter__(self): return self
    def __next__(self):
        with lock: return next(self.it)
DataLoader.__iter__ = lambda self: Locked(self)
thread = threading.Thread(target=want); thread.start()
"""
    run = watched(code("train(); over = True; thread.join()", more=locked)).healthy()
    assert slowed(run)


def test_rounds_of_an_evaluation_are_left_alone(watched: Callable[..., Any]) -> None:
    both = """
def train(**options):
    net = torch.nn.Linear(8, 1); optimizer = torch.optim.SGD(net.parameters(), lr=1e-7)
    for epoch in range(8):
        net.train()
        for x, y in DataLoader(Data(), batch_size=4):
            loss = (net(x) - y).square().mean(); optimizer.zero_grad(); loss.backward(); optimizer.step()
            time.sleep(step)
        net.eval()
        with torch.no_grad():
            for x, y in DataLoader(Data(), batch_size=4): net(x)
"""
    run = watched(code("train()", batches=50, more=both)).healthy()
    evaluating = {record.a for record in run.records(Kind.ITERATOR) if not record.e}
    assert slowed(run)
    assert not {record.a for record in slowed(run)} & evaluating


def test_who_is_killed_in_the_middle_of_it_is_read_to_the_end(watched: Callable[..., Any]) -> None:
    dying = "alarm = time.sleep\ndef sleep(s):\n alarm(s)\n if here.slowed == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
    run = watched(code("train()", more=f"from gputune_guest.ring import here\n{dying}time.sleep = sleep"))
    assert run.status == -9
    assert len(slowed(run)) == slowing.ROUNDS - 3


@pytest.mark.parametrize("interrupt", ["signal.SIGINT", "signal.SIGTERM"])
def test_ctrl_c_in_the_middle_of_it_is_one_in_the_script(watched: Callable[..., Any], interrupt: str) -> None:
    pressing = f"""
from gputune_guest.ring import here
alarm = time.sleep
def press():
    alarm(0.01)
    os.kill(os.getpid(), {interrupt})
def sleep(s):
    alarm(s)
    if here.slowed == 3: threading.Thread(target=press).start()
time.sleep = sleep
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
"""
    call = "try: train()\nexcept KeyboardInterrupt: print('stopped'); sys.exit(3)"
    run = watched(code(call, more=pressing, step=0.1, batches=150))
    assert run.status == 3, run.err
    assert run.err == ""
    assert run.out == ("stopped\n" if interrupt == "signal.SIGINT" else "")
