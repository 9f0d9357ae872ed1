"""The device's ledger, as gputune tells it of a training, against what the simulated card booked meanwhile."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Maker = Callable[..., Any]
SIMGPU = Path(__file__).parents[1] / "simgpu"
POINTS = 0.02
RATE = 25_000_000_000  # B/s of a link that is slow for the cards
PATIENCE = 120.0  # s

BOOKS = """
import json, os, sys, time
folder, *settings = json.loads(sys.argv[1])
sys.path.insert(0, folder)
import simgpu, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
cards = simgpu.Cards(os.environ["SIMGPU_STATE"])
def books():
    for card in range(torch.cuda.device_count()): torch.cuda.synchronize(card)
    return cards.booked(0)
def begin():
    global before
    before = books()
def end():
    after, wanted = books(), ("kernel", "spun", "exposed_copy", "exposed_collective", "idle", "until")
    kernel, held, copied, met, idle, whole = (after[name] - before[name] for name in wanted)
    told = (kernel - held, copied, met, idle + held, whole)  # held back a card does nothing of the training's
    os.write(1, (" ".join(map(str, told)) + "\\n").encode())  # a whole line, whoever else writes
"""
TRAINING = """
work, slow, pinned, singly = settings
class Pictures(Dataset):
    def __len__(self): return (700 if singly else 500) * 16
    def __getitem__(self, i):
        time.sleep(slow / 3)
        return torch.zeros(3, 128, 128)
host_ms, wide, deep, reads = work
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(8), nn.Flatten(), nn.Linear(512, wide),
                      *(nn.Linear(wide, wide) for _ in range(deep)), nn.Linear(wide, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if singly: optimizer = torch.optim.Adam(model.parameters(), foreach=False)
loader = DataLoader(Pictures(), batch_size=16, num_workers=1, pin_memory=pinned)
for n, batch in enumerate(loader):
    if n == 10: begin()
    batch = batch.cuda(non_blocking=True)
    until = time.monotonic() + host_ms / 1e3
    while time.monotonic() < until: pass
    loss = model(batch).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if reads: loss.item()
end()
"""
PREFETCHED = """
(wide,) = settings
batches = [torch.zeros(64, 3, 224, 224).pin_memory() for _ in range(2)]
model = nn.Sequential(*(nn.Linear(wide, wide) for _ in range(8)), nn.Linear(wide, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, side, ahead = torch.zeros(64, wide, device="cuda"), torch.cuda.Stream(), None
for n in range(500):
    if n == 10: begin()
    torch.cuda.current_stream().wait_stream(side)
    there = ahead
    with torch.cuda.stream(side): ahead = batches[n % 2].cuda(non_blocking=True)
    loss = model(x).mean() if there is None else model(x + there[0, 0, 0, 0]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
end()
"""
GRAPHED = """
host_ms, wide, deep = settings
class Rows(Dataset):
    def __len__(self): return 250 * 16
    def __getitem__(self, i): return torch.zeros(wide)
model = nn.Sequential(*(nn.Linear(wide, wide) for _ in range(deep)), nn.Linear(wide, 1)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, side = torch.zeros(16, wide, device="cuda"), torch.cuda.Stream()
def step():
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward()
    optimizer.step()
    return loss
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side): step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph): loss = step()
for n, batch in enumerate(DataLoader(Rows(), batch_size=16, num_workers=1)):
    if n == 10: begin()
    x.copy_(batch.cuda())
    graph.replay()
    loss.item()
    until = time.monotonic() + host_ms / 1e3
    while time.monotonic() < until: pass
end()
"""
TWO_CARDS = """
how, wide, other = settings
class Rows(Dataset):
    def __len__(self): return 400 * 16
    def __getitem__(self, i): return torch.zeros(wide)
def part(wide, out): return nn.Sequential(*(nn.Linear(wide, wide) for _ in range(8)), nn.Linear(wide, out))
if how == "DataParallel":
    model = nn.DataParallel(part(wide, 1).cuda())
    parameters = [*model.parameters()]
else:
    head, tail, last = part(wide, other).to("cuda:0"), part(other, 1).to("cuda:1"), nn.Linear(1, 1).to("cuda:0")
    parameters = [*head.parameters(), *tail.parameters(), *last.parameters()]
    there = lambda x: tail(head(x).to("cuda:1"))
    model = (lambda x: last(there(x).cuda(0))) if how == "there and back" else there
optimizer = torch.optim.SGD(parameters, lr=0.1)
model(torch.zeros(16, wide).cuda()).mean().backward()  # what is slow but once is not of the loop, as it is not booked
for n, batch in enumerate(DataLoader(Rows(), batch_size=16, num_workers=1, pin_memory=True)):
    if n == 10: begin()
    loss = model(batch.cuda(non_blocking=True)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
end()
"""

RANKS = """
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
how, late = settings
rank, wide = int(os.environ["RANK"]), 2048
def books():
    torch.cuda.synchronize()
    return cards.booked(rank)
torch.set_num_threads(1)
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
part = lambda: nn.Sequential(nn.Linear(wide, 4 * wide), nn.GELU(), nn.Linear(4 * wide, wide)).cuda()
if how == "fully_shard":
    model = nn.Sequential(*(fully_shard(part()) for _ in range(4)))
    fully_shard(model)
elif how == "FullyShardedDataParallel":
    model = FullyShardedDataParallel(nn.Sequential(*(FullyShardedDataParallel(part()) for _ in range(4))))
else:
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*(part() for _ in range(4))), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.zeros(1024, wide, device="cuda")
for n in range(300):
    if n == 2: begin()
    if n % 3 == rank: time.sleep(late)
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
end()
dist.destroy_process_group()
"""


def told(
    machine: Any, *settings: object, training: str = TRAINING, ranks: int = 1, **options: object
) -> tuple[dict[str, float], list[float]]:
    """Return the device's ledger of a training under `gputune watch`, and what its cards booked of its loop, ns."""
    (machine.folder / "train.py").write_text(BOOKS + training)
    verdict = machine.folder / "verdict.json"
    watch = [sys.executable, "-m", "gputune", "watch", "--json", verdict, "--out", machine.folder / "run"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    script = [*torchrun, machine.folder / "train.py", json.dumps([str(SIMGPU), *settings])]
    done = subprocess.run(
        [*watch, "--", machine._simcuda.PYTHON, *script],
        env=machine.environment(**options) | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    document = json.loads(verdict.read_text())
    booked = [map(float, line.split()) for line in done.stdout.splitlines()]
    return {row["part"]: row["share"] for row in document["device_ledger"]}, list(map(sum, zip(*booked, strict=True)))


@pytest.mark.parametrize(
    ("work", "slow", "pinned"),
    [
        pytest.param((0, 4096, 8, False), 0.0, True, id="device-bound"),
        pytest.param((1, 256, 6, False), 0.0, True, id="host-bound"),
        pytest.param((0, 2048, 8, True), 0.0, True, id="read every step"),
        pytest.param((0, 2048, 4, False), 0.0, False, id="pageable"),
        pytest.param((0, 2048, 4, False), 0.001, True, id="starved"),
    ],
)
def test_the_ledger_is_what_the_card_booked(machine: Maker, work: Any, slow: float, pinned: bool) -> None:
    ledger, (kernel, copied, _, idle, whole) = told(machine(), work, slow, pinned, False)
    assert sum(ledger.values()) == pytest.approx(1, abs=0.01)
    assert ledger.get("compute", 0.0) == pytest.approx(kernel / whole, abs=POINTS)
    if pinned:
        assert ledger.get("copies", 0.0) == pytest.approx(copied / whole, abs=POINTS)
    else:  # the card books the link alone; a host that fills the driver's buffer meanwhile is copying as well
        assert ledger["copies"] > copied / whole - POINTS
    rest = sum(ledger.get(part, 0.0) for part in ("copies", "host-bound", "starved"))
    assert rest == pytest.approx((copied + idle) / whole, abs=POINTS)
    if slow or work[0]:  # the card has no reason to be idle, but the script has: its workers sleep, or its host is slow
        assert (ledger["starved"] > ledger["host-bound"]) == bool(slow)


def test_a_copy_on_a_stream_of_its_own_is_beside_the_work(machine: Maker) -> None:
    """39 MB take the link 1.6 ms, beside 8 of the model."""
    ledger, (kernel, copied, _, _, whole) = told(machine(), 8192, training=PREFETCHED)
    assert copied / whole < POINTS
    assert kernel / whole > 0.8
    assert ledger.get("copies", 0.0) < POINTS
    assert ledger["compute"] == pytest.approx(kernel / whole, abs=POINTS)


def test_a_part_that_is_more_than_the_queue_holds_is_divided_further(machine: Maker) -> None:
    ledger, (kernel, *_, whole) = told(machine(), (0, 64, 45, False), 0.0, True, True, queue=448)
    assert ledger["compute"] == pytest.approx(kernel / whole, abs=POINTS)
    assert ledger["host-bound"] > 0.5
    assert "unknown" not in ledger


def test_a_step_that_is_one_launch_is_the_compute_that_it_is(machine: Maker) -> None:
    """The host queues a graph in 0.2 ms of a step of 30."""
    ledger, (kernel, *_, whole) = told(machine(), 15, 4096, 80, training=GRAPHED)
    assert 0.3 < kernel / whole < 0.8
    assert ledger["compute"] == pytest.approx(kernel / whole, abs=POINTS)


def test_a_backward_pass_that_is_more_than_the_queue_holds_is_divided_where_its_forward_pass_was(
    machine: Maker,
) -> None:
    short = "import gputune_guest.dividing\ngputune_guest.dividing.calls = 32\n" + TRAINING.replace("500", "1500")
    ledger, (kernel, *_, whole) = told(machine(), (0, 64, 100, True), 0.0, True, False, training=short, queue=192)
    assert ledger["compute"] == pytest.approx(kernel / whole, abs=POINTS)
    assert "unknown" not in ledger


@pytest.mark.parametrize(
    ("how", "wide", "other"),
    [
        ("there", 4096, 4096),
        ("there and back", 4096, 6144),
        ("there and back", 2048, 4096),
        ("DataParallel", 2048, 0),
    ],
)
def test_waiting_for_another_card_of_the_process_is_no_compute(machine: Maker, how: str, wide: int, other: int) -> None:
    ledger, (kernel, copied, met, idle, whole) = told(machine(2), how, wide, other, training=TWO_CARDS)
    assert sum(ledger.values()) == pytest.approx(1, abs=0.01)
    assert ledger["other-device"] > 0.05
    if how == "DataParallel":  # the kernels by which it packs what it passes on count as passing it on
        assert 0 < ledger["compute"] < kernel / whole + POINTS
        return
    assert ledger["compute"] == pytest.approx(kernel / whole, abs=POINTS)
    rest = sum(ledger.get(part, 0.0) for part in ("copies", "other-device", "host-bound", "starved"))
    assert rest == pytest.approx((copied + met + idle) / whole, abs=POINTS)


@pytest.mark.parametrize(
    ("how", "late"),
    [
        ("fully_shard", 0.0),
        ("fully_shard", 0.12),
        ("FullyShardedDataParallel", 0.0),
        pytest.param("FullyShardedDataParallel", 0.12, marks=pytest.mark.long),
        pytest.param("DistributedDataParallel", 0.12, marks=pytest.mark.long),
    ],
)
def test_waiting_for_other_ranks_is_no_compute(machine: Maker, how: str, late: float) -> None:
    made = machine(2)
    for card in range(2):
        made.cards.set(card, rate_link=RATE)
    ledger, (kernel, copied, met, idle, whole) = told(made, how, late, training=RANKS, ranks=2)
    assert sum(ledger.values()) == pytest.approx(1, abs=0.01)
    assert ledger["compute"] == pytest.approx(kernel / whole, abs=POINTS)
    if not late:  # how late others are in the rounds that are sampled is chance
        assert ledger["communication"] == pytest.approx(met / whole, abs=POINTS)
    rest = sum(ledger.get(part, 0.0) for part in ("copies", "communication", "host-bound", "starved"))
    assert rest == pytest.approx((copied + met + idle) / whole, abs=POINTS)
