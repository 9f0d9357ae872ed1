"""Ranks meet in NCCL's collectives: data goes around, and a late rank makes the others wait inside a kernel."""

from collections.abc import Callable
from typing import Any

import pytest

Maker = Callable[..., Any]
JOIN = """
import torch.distributed as dist
def say(*words): os.write(1, (" ".join(map(str, words)) + "\\n").encode())  # whole lines, whoever else writes
rank = int(os.environ["LOCAL_RANK"]); torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank)); ranks = dist.get_world_size()
"""
LATE, STEPS = 20, 8  # ms a step
RATE = 2_000_000_000  # B/s of a slow link


@pytest.mark.parametrize("ranks", [2, 4])
def test_what_the_host_knows_goes_around(machine: Maker, ranks: int) -> None:
    code = """
x = torch.tensor([rank + 1.0], device=device); dist.all_reduce(x)
objects = [None] * ranks; dist.all_gather_object(objects, "x" * 7 * rank)
told = [{"hello": [1, 2]} if not rank else None]; dist.broadcast_object_list(told, 0); dist.barrier()
parts = [torch.zeros(2, dtype=torch.long, device=device) for _ in range(ranks)]
dist.all_gather(parts, torch.tensor([rank, rank * rank], device=device))
out = torch.zeros(ranks, device=device)
dist.all_to_all_single(out, torch.tensor([10.0 * rank + i for i in range(ranks)], device=device))
if rank == 0: dist.send(torch.tensor([42.0], device=device), 1)
if rank == 1: got = torch.zeros(1, device=device); dist.recv(got, 0); assert got.item() == 42
assert x.item() == ranks * (ranks + 1) / 2
assert objects == ["x" * 7 * r for r in range(ranks)]
assert told == [{"hello": [1, 2]}]
assert [part.tolist() for part in parts] == [[r, r * r] for r in range(ranks)]
assert out.tolist() == [10.0 * r + rank for r in range(ranks)]
pair = dist.new_group([0, 1])
if rank < 2: one = torch.ones(1, device=device); dist.all_reduce(one, group=pair); assert one.item() == 2
dist.destroy_process_group(); say("ok")
"""
    assert machine(ranks).torchrun(ranks, JOIN + code).count("ok") == ranks


def test_an_all_reduce_takes_latency_and_the_rings_bytes_by_the_rate(machine: Maker) -> None:
    code = """
x = torch.empty(50_000_000, device=device); dist.all_reduce(x); sync()
ahead(); dist.all_reduce(x); a = mark(); dist.all_reduce(x); b = mark(); sync()
say(a.elapsed_time(b))
"""
    for line in machine(2).torchrun(2, JOIN + code):
        assert float(line) == pytest.approx(0.02 + 200e6 / 200e9 * 1e3, abs=0.001)  # 2 (n - 1) / n of the bytes


def test_a_late_rank_makes_the_others_wait_in_a_kernel(machine: Maker) -> None:
    made = machine(2)
    code = f"""
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256)).to(device)
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), 0.1)
def steps(n):
    for _ in range(n):
        torch.cuda._sleep((1 + {LATE} * rank) * MS)
        model(torch.randn(16, 256, device=device)).sum().backward(); optimizer.step(); optimizer.zero_grad()
steps(12); sync()  # in its first ten steps DDP itself waits for the device, to time them
dist.barrier(); torch.cuda._sleep(2000 * MS); steps(1)
a = mark(); steps({STEPS}); b = mark(); sync()
say(rank, os.getpid(), a.elapsed_time(b))
"""
    told = {
        int(words[0]): words for words in map(str.split, made.torchrun(2, JOIN + code, trace=made.folder / "trace%p"))
    }
    for _, _, elapsed in told.values():
        assert float(elapsed) == pytest.approx(STEPS * (LATE + 1), rel=0.02)
    longest = {rank: stood(made, words[1]) for rank, words in told.items()}
    assert longest[0] == pytest.approx(STEPS * LATE, rel=0.02)
    assert longest[1] < 0.02 * longest[0]
    books = made.cards.booked(0, int(told[0][1]))
    assert books["collective_wait"] >= 0.98 * STEPS * LATE * 1e6
    assert books["exposed_collective"] >= 0.98 * STEPS * LATE * 1e6


def test_gradients_on_a_slow_link_take_their_bytes_by_the_rate(machine: Maker) -> None:
    made = machine(2)
    for card in range(2):
        made.cards.set(card, rate_link=RATE)
    code = f"""
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).to(device)
model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank], bucket_cap_mb=4)
optimizer = torch.optim.SGD(model.parameters(), 0.1); x = torch.zeros(64, 1024, device=device)
def steps(n):
    for _ in range(n): model(x).sum().backward(); optimizer.step(); optimizer.zero_grad(set_to_none=False)
steps(12); sync()  # in its first ten steps DDP itself waits for the device, to time them
ahead(); dist.all_reduce(x)  # from here on both are at the same point
a = mark(); steps({STEPS * 3}); b = mark(); sync()
say(a.elapsed_time(b))
"""
    least = 4 * 8 * (1024 * 1024 + 1024) / RATE * 1e3 * STEPS * 3
    for line in made.torchrun(2, JOIN + code):
        assert float(line) == pytest.approx(least, rel=0.1)


def stood(made: Any, pid: str) -> float:
    """Return the ms in which a rank stood in its last collectives."""
    lines = [line.split() for line in (made.folder / f"trace{pid}").read_text().splitlines()]
    inside = sorted((int(i[3]), int(i[4])) for i in lines if i[0] == "collective" and i[5] == "ncclAllReduce")
    return sum(end - begin for begin, end in inside[-STEPS:]) / 1e6


@pytest.mark.parametrize("ranks", [2, 4])
def test_both_kinds_of_fsdp_train(machine: Maker, ranks: int) -> None:
    code = """
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
def train(model):
    optimizer = torch.optim.AdamW(model.parameters())
    ahead()
    for _ in range(20):
        model(torch.randn(8, 128, device=device)).sum().backward(); optimizer.step(); optimizer.zero_grad()
    sync()
new = nn.Sequential(*[nn.Linear(128, 128) for _ in range(3)]).to(device)
for layer in new: fully_shard(layer)
train(fully_shard(new))
old = FullyShardedDataParallel(nn.Sequential(*[nn.Linear(128, 128) for _ in range(3)]).to(device)); train(old)
old.clip_grad_norm_(1.0)
dist.destroy_process_group(); say("ok")
"""
    assert machine(ranks).torchrun(ranks, JOIN + code).count("ok") == ranks
