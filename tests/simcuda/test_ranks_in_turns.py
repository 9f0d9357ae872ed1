"""Real ranks whose batches are late in turns, under `gputune watch`: what findings promise is what their change brings.

In each round the batch of another rank is late, and all wait for it in a kernel. What a change brings is what it brings
where the ranks meet, however little each of them waits by itself.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Maker = Callable[..., Any]
PATIENCE = 150.0  # s
WORKERS = 2  # that hide all of it
OFF = 0.12  # by which a likely gain may be off: losing two of 100 rounds to a neighbour is 5 % of what is left
TRAINING = """
import json, os, sys, time, torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset
late, products, rounds, workers, reads = json.loads(sys.argv[1])
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
class Turns(Dataset):
    def __len__(self): return rounds
    def __getitem__(self, at):
        time.sleep(0.001 + late * (at % ranks == rank))
        return torch.zeros(32, 256)
torch.set_num_threads(1)
torch.cuda.set_device(rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
frozen = torch.zeros(4096, 4096, device="cuda")
model = nn.parallel.DistributedDataParallel(nn.Linear(256, 256).cuda(), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for n, rows in enumerate(DataLoader(Turns(), batch_size=None, num_workers=workers, pin_memory=True)):
    if n == 20:
        torch.cuda.synchronize()
        began = time.perf_counter()
    rows = rows.cuda(non_blocking=True)
    with torch.no_grad():
        for _ in range(products): torch.mm(frozen, frozen)
    loss = model(rows).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if reads: loss.item()
torch.cuda.synchronize()
if rank == 0: print((time.perf_counter() - began) / (rounds - 20))
dist.destroy_process_group()
"""


class Job:
    """A training of so many ranks on simulated cards, whose rounds are `late` s longer than its `products` take."""

    def __init__(self, machine: Any, ranks: int, late: float, products: int, rounds: int) -> None:
        self.machine, self.work = machine, (late, products, rounds)
        (machine.folder / "train.py").write_text(TRAINING)
        self.launch = [machine._simcuda.PYTHON, "-m", "torch.distributed.run", "--standalone"]
        self.launch += ["--nproc-per-node", str(ranks), machine.folder / "train.py"]

    def run(self, workers: int, *, reads: bool, before: tuple[Any, ...] = ()) -> float:
        """Return the s of a round."""
        done = subprocess.run(
            [*before, *self.launch, json.dumps([*self.work, workers, reads])],
            env=self.machine.environment() | {"OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return float(done.stdout)

    def told(self) -> tuple[float, dict[str, Any]]:
        """Return the s of a round, and the findings, of the job that makes its batches itself and reads each loss."""
        verdict = self.machine.folder / "verdict.json"
        watch = (sys.executable, "-m", "gputune", "watch", "--quiet", "--json", verdict)
        now = self.run(0, reads=True, before=(*watch, "--out", self.machine.folder / "run", "--"))
        document = json.loads(verdict.read_text())
        return now, {finding["id"]: finding for finding in (*document["findings"], *document["perhaps"])}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "late", "products", "rounds"),
    [
        pytest.param(2, 0.020, 10, 100, id="2 ranks"),
        pytest.param(8, 0.040, 20, 120, id="8 ranks, 40 of 100 ms", marks=pytest.mark.long),
        pytest.param(8, 0.063, 12, 120, id="8 ranks, 60 of 100 ms", marks=pytest.mark.long),
    ],
)
def test_batches_that_are_late_on_another_rank_each_round_cost_all_of_them(
    machine: Maker, ranks: int, late: float, products: int, rounds: int
) -> None:
    job = Job(machine(ranks), ranks, late, products, rounds)
    now, found = job.told()
    read_less, more_workers = job.run(0, reads=False), job.run(WORKERS, reads=True)
    assert {"sync-every-step", "few-workers"} & set(found)  # each of the two makes good for most of what the other does
    for name, truth in (("sync-every-step", now / read_less), ("few-workers", now / more_workers)):
        if name in found:
            gain = found[name]["speedup"]
            print(f"{name}: x{gain['likely']:.2f} for x{truth:.2f}")
            assert gain["low"] <= truth <= gain["high"]
            assert gain["likely"] == pytest.approx(truth, rel=OFF)
