"""Batches are withheld but for one at a time: it is made by itself, and every sample and number stays what it is."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.events import DelayCode, Kind, Record
from gputune.launch.steering import OrderChannel
from tests.guest.conftest import Watched

CODE = """
import hashlib, os, random, signal, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from gputune_guest import budget, draining, filling, samples

filling.FIRST, filling.FIRST_NS, filling.MOST, filling.WAITING = 2, 0, 0, -1  # at once, and the training never stands
samples.SHARE = 1 << 30  # all are sampled
draining.REST, draining.OFTEN, budget.AHEAD = 0, 1 << 30, 1 << 60

class Data(Dataset):
    def __len__(self): return 4 * 50
    def __getitem__(self, index):
        if index == bad: raise ValueError("bad sample")
        if index == deadly: os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.0002)
        return torch.full((8,), float(index)), torch.rand(1), random.random()

class Stream(IterableDataset):
    def __iter__(self):
        me = get_worker_info()
        for index in range(me.id, 4 * 40, me.num_workers): yield torch.full((8,), float(index)), torch.rand(1), 0.5

class Unlike(IterableDataset):
    def __iter__(self):
        for index in range(4 * (15, 40)[get_worker_info().id]): yield torch.full((8,), float(index)), torch.rand(1), 0.5

class Drawing:
    def __init__(self, kind=int): self.kind = kind
    def __len__(self): return 4 * 40
    def __iter__(self):
        for _ in range(len(self)): yield self.kind(torch.randint(0, 200, ()))

bad = deadly = -1
torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-7)
seen = hashlib.md5()

def step(x, y, z):
    loss = (net(x) - y).square().mean() + torch.as_tensor(z).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seen.update(str((x.tolist(), loss.item())).encode())

def train(loader, most=1 << 30):
    for number, batch in enumerate(loader):
        step(*batch)
        if number + 1 == most: break
    print(seen.hexdigest(), hashlib.md5(bytes(torch.get_rng_state().tolist())).hexdigest(), flush=True)

before = 0
def looked():
    global before
    now = sum(spent.done for spent in draining._known.values())
    print("drained", now - before, flush=True)
    before = now

def drained(iterator):
    for batch in iterator:
        step(*batch)
        if draining._under_way: return
"""
LOOPS = {
    "passes of workers that last, one of which is left": """
loader = DataLoader(Data(), batch_size=4, shuffle=True, num_workers=2, persistent_workers=True)
train(loader); train(loader, 23); train(loader)""",
    "workers that start again, and are left": """
loader = DataLoader(Data(), batch_size=4, shuffle=True, num_workers=2, prefetch_factor=3)
train(loader, 31); train(loader)""",
    "one worker": "train(DataLoader(Data(), batch_size=4, shuffle=True, num_workers=1))",
    "a sampler that draws what the training draws, too": """
train(DataLoader(Data(), batch_size=4, sampler=Drawing(), num_workers=2))""",
    "no batches": "train(DataLoader(Data(), batch_size=None, shuffle=True, num_workers=2))",
    "a stream": """
train(DataLoader(Stream(), batch_size=4, num_workers=2))
train(DataLoader(Stream(), batch_size=6, num_workers=2))""",
    "a stream that ends for one of the workers that last": """
loader = DataLoader(Unlike(), batch_size=4, num_workers=2, persistent_workers=True)
for _ in range(4): train(loader)""",
    "a Ctrl-C that the script takes": """
loader = DataLoader(Data(), batch_size=4, shuffle=True, num_workers=2)
iterator = iter(loader)
drained(iterator)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt: pass
train(iterator)""",
    "a fork": """
iterator = iter(DataLoader(Data(), batch_size=4, shuffle=True, num_workers=2))
drained(iterator)
child = os.fork()
if not child: os._exit(bool(draining._under_way))
print(os.waitpid(child, 0)[1])
train(iterator)""",
}


@pytest.fixture(autouse=True)
def _torch() -> None:
    pytest.importorskip("torch")


def lone(run: Watched) -> list[Record]:
    return [record for record in run.records(Kind.DELAY) if record.code == DelayCode.LONE]


def test_a_batch_is_made_by_itself_and_every_number_is_the_same(watched: Callable[..., Any]) -> None:
    code = CODE + "".join(f"print({name!r})\n{loop}\nlooked()\n" for name, loop in LOOPS.items())
    run, passive = (watched(code, env=env).healthy() for env in ({}, {"GPUTUNE_GUEST_PERTURB": "0"}))
    drains = [int(line.split()[1]) for line in run.out.splitlines() if line.startswith("drained")]
    assert len(drains) == len(LOOPS)
    assert min(drains) > 0
    assert lone(passive) == []
    assert run.err == passive.err == ""
    assert [line for line in run.out.splitlines() if not line.startswith("drained")] == [
        line for line in passive.out.splitlines() if not line.startswith("drained")
    ]
    made = [record for worker in run.workers for record in run.records(Kind.FETCH, worker)]
    for alone in lone(run):
        assert sum(record.t1 > alone.t0 and record.t0 < alone.t1 for record in made) <= 1


def test_what_is_withheld_does_not_change_with_a_list_that_is_used_again(watched: Callable[..., Any]) -> None:
    code = f"{CODE}\nbatch = [1, [2]]\nkept = draining._copied(batch)\nbatch[1].append(batch.pop(0))\nprint(kept)\n"
    assert watched(code).healthy().out == "[1, [2]]\n"


def test_it_does_not_where_that_would_change_something_or_tell_nothing(watched: Callable[..., Any]) -> None:
    code = f"""{CODE}
train(DataLoader(Data(), batch_size=4, num_workers=0), 25)
train(DataLoader(Data(), batch_size=4, num_workers=2, timeout=60), 25)
train(DataLoader(Data(), batch_size=4, num_workers=2, in_order=False), 25)
train(DataLoader(Data(), batch_size=4, sampler=Drawing(lambda index: index), num_workers=2), 25)  # tensors
one, two = (DataLoader(Data(), batch_size=4, num_workers=2) for _ in "ab")
for batch, _, _ in zip(one, two, range(25)): step(*batch)
"""
    assert lone(watched(code).healthy()) == []


def test_a_training_that_is_steered_meanwhile_gets_the_same_samples(
    watched: Callable[..., Any], tmp_path: Path
) -> None:
    OrderChannel(tmp_path / "steer").close()
    code = f"""{CODE}
from pathlib import Path
from gputune.launch.steering import OrderChannel
orders = OrderChannel(Path(os.environ["GPUTUNE_STEER"]))
def order(batches): return [x[:, 0].tolist() for x, _y, _z in batches]
def loader(): return iter(DataLoader(Data(), batch_size=4, shuffle=True, num_workers=2))
torch.manual_seed(3)
untouched = order(loader())
torch.manual_seed(3)
iterator, got = loader(), []
for workers in (0, 2, 1):
    while not draining._under_way and len(got) < 15 * (workers + 1): got += order([next(iterator)])
    print(bool(draining._under_way) or workers != 0)
    orders.send({{"do": "serve", "set": {{"num_workers": workers}}}})
    got += order([next(iterator)])
    print(bool(draining._under_way))
print(got + order(iterator) == untouched)
"""
    run = watched(code, env={"GPUTUNE_STEER": str(tmp_path / "steer")}).healthy()
    assert run.out.split() == [*(["True", "False"] * 3), "True"]


def test_what_a_worker_raises_while_others_are_withheld_comes_as_ever(watched: Callable[..., Any]) -> None:
    code = f"""{CODE}
import traceback
bad = 120
iterator = iter(DataLoader(Data(), batch_size=4, num_workers=2))
try:
    train(iterator)
except ValueError as error:
    print("".join(traceback.format_exception(error)).count("gputune"))
"""
    run = watched(code).healthy()
    assert lone(run)
    assert run.out.split("\n", 1)[0] == "0"


def test_a_worker_that_dies_meanwhile_is_noticed_as_ever(watched: Callable[..., Any]) -> None:
    code = f"""{CODE}
deadly = 120
try:
    train(DataLoader(Data(), batch_size=4, num_workers=2))
except (RuntimeError, EOFError, ConnectionError) as error:  # the latter where it was handing a batch over
    print("noticed", type(error).__name__)
"""
    run = watched(code)
    assert lone(run)
    assert "noticed" in run.out or "DataLoader worker" in run.err  # by a signal, which may strike anywhere


def test_workers_of_an_iterator_that_goes_meanwhile_end_at_once(watched: Callable[..., Any]) -> None:
    code = f"""{CODE}
iterator = iter(DataLoader(Data(), batch_size=4, shuffle=True, num_workers=2))
drained(iterator)
workers = list(iterator._workers)
print(bool(draining._under_way))
del iterator
print([worker.is_alive() for worker in workers], bool(draining._under_way))
"""
    run = watched(code).healthy()
    assert (run.out, run.err) == ("True\n[False, False] False\n", "")


def test_an_interpreter_that_ends_meanwhile_ends_in_silence(watched: Callable[..., Any]) -> None:
    code = f"""{CODE}
iterator = iter(DataLoader(Data(), batch_size=4, shuffle=True, num_workers=2))
drained(iterator)
print(bool(draining._under_way))
"""
    run = watched(code).healthy()
    assert (run.out, run.err) == ("True\n", "")
