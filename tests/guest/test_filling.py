"""The training is held up until batches lie ready: only where it waits for them, and only the clock can tell."""

from collections.abc import Callable
from typing import Any

import pytest

from gputune.core.events import DelayCode, Kind, Record
from tests.guest.conftest import Watched
from tests.guest.training import TRAINING

CODE = f"batches = 400\n{TRAINING}"


def stood(run: Watched) -> list[Record]:
    return [record for record in run.records(Kind.DELAY) if record.code == DelayCode.STANDS]


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch")


def test_it_stands_where_it_waits_and_every_number_is_the_same(watched: Callable[..., Any]) -> None:
    code = f"making, step = 0.004, 0.004\n{CODE}\ntrain(num_workers=2)"
    run = watched(code).healthy()
    records = stood(run)
    assert records
    assert all(record.d >= 3 for record in records if record.t1 - record.t0 < 100_000_000)
    assert all(record.t1 - record.t0 < 1_000_000_000 for record in records)
    passive = watched(code, env={"GPUTUNE_GUEST_PERTURB": "0"}).healthy()
    assert stood(passive) == []
    assert run.out == passive.out


@pytest.mark.parametrize(
    "loop",
    [
        "making, step = 0.0, 0.02; options = dict(num_workers=2)",  # they lie ready: it looks, and goes on
        "making, step = 0.004, 0.004; options = dict(num_workers=0)",
        "making, step = 0.004, 0.004; options = dict(num_workers=2, timeout=20)",
    ],
)
def test_it_does_not_where_there_is_nothing_to_learn_or_something_to_lose(
    watched: Callable[..., Any], loop: str
) -> None:
    run = watched(f"{loop}\n{CODE}\ntrain(**options)").healthy()
    assert [record for record in stood(run) if record.t1 - record.t0 > 20_000_000] == []


def test_with_a_thread_that_pins_it_counts_what_that_has_handed_on(watched: Callable[..., Any]) -> None:
    """Without a device torch starts no such thread: its place is taken by a queue of the same kind."""
    code = f"""making, step = 0.004, 0.004
{CODE}
import queue, threading
from torch.utils.data import dataloader
init = dataloader._MultiProcessingDataLoaderIter.__init__
def with_a_thread(self, loader):
    init(self, loader)
    made, self._data_queue = self._data_queue, queue.Queue()
    def hand_on():
        while True:
            self._data_queue.put(made.get())
    threading.Thread(target=hand_on, daemon=True).start()
dataloader._MultiProcessingDataLoaderIter.__init__ = with_a_thread
train(num_workers=2)
sys.stdout.flush()
os._exit(0)
"""
    run = watched(code)
    assert run.status == 0, run.err
    assert stood(run)


def test_a_signal_ends_it_and_its_handler_runs_in_the_script(watched: Callable[..., Any]) -> None:
    """An alarm comes every five milliseconds: nothing stands for longer."""
    code = f"""making, step = 0.008, 0.002
{CODE}
count = 0
def handler(*_):
    global count
    count += 1
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
train(num_workers=2)
signal.setitimer(signal.ITIMER_REAL, 0)
print(count > 500)
"""
    run = watched(code, env={"GPUTUNE_GUEST_PERTURB": "0.03"}).healthy()
    assert stood(run)
    assert max(record.t1 - record.t0 for record in stood(run)) < 50_000_000
    assert run.out.endswith("True\n")


@pytest.mark.parametrize("share", ["0.03", "0"], ids=["held-up", "passive"])
def test_a_worker_that_dies_is_told_as_without_us(watched: Callable[..., Any], share: str) -> None:
    """It ends itself after 175 batches; the training is held up as often as it may be."""
    code = f"""making, step = 0.004, 0.002
{CODE}
class Dying(Data):
    made = 0
    def __getitem__(self, index):
        self.made += 1
        if self.made == 700:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)
Data = Dying
train(num_workers=2)
"""
    run = watched(code, env={"GPUTUNE_GUEST_PERTURB": share})
    assert run.status == 1
    assert "DataLoader worker (pid" in run.err or "ConnectionResetError" in run.err  # it was handing a batch over
    assert "gputune" not in run.err
    assert bool(stood(run)) is (share != "0")


def test_another_threads_next_is_not_held_up_and_breaks_nothing(watched: Callable[..., Any]) -> None:
    """Another loader is iterated beside, by a thread of its own."""
    code = f"""making, step = 0.004, 0.002
{CODE}
import threading
Data.__len__ = lambda self: 4 * 1000
class Quick(Dataset):
    def __len__(self): return 1 << 20
    def __getitem__(self, index): return index
taken = over = 0
def beside():
    global taken
    for _ in DataLoader(Quick(), batch_size=1):
        taken += 1
        time.sleep(0.02)  # each batch that is sampled is one of either
        if over:
            return
thread = threading.Thread(target=beside)
thread.start()
train(num_workers=2)
over = 1
thread.join()
print(taken > 50)
"""
    run = watched(code, env={"GPUTUNE_GUEST_PERTURB": "0.03"}).healthy()
    assert run.out.endswith("True\n")
    assert stood(run)
    assert {record.a for record in stood(run)} == {record.a for record in run.records(Kind.MEMBER)}
