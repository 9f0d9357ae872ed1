"""`gputune share` with real CUDA processes: what fits, what does not, who runs out of memory, what a full card does."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Maker = Callable[..., Any]
GPUTUNE = (sys.executable, "-m", "gputune")
PATIENCE = 180.0  # s
GIB = 1 << 30
TASK = """
import argparse, time, torch
from torch import nn
from torch.utils.data import DataLoader
options = argparse.ArgumentParser()
for name, usual in (("steps", 300), ("gib", 1), ("kernels", 4), ("sleep_ms", 0), ("later", 0), ("process_index", 0),
                    ("process_num", 1)):
    options.add_argument("--" + name, type=int, default=usual)
asked = options.parse_args()
class Data:
    def __len__(self): return 4 * asked.steps
    def __getitem__(self, i): return torch.ones(64)
torch.set_num_threads(1)
held = [torch.empty(asked.gib << 30, dtype=torch.uint8, device="cuda")]
model = nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for n, batch in enumerate(DataLoader(Data(), batch_size=4)):
    for _ in range(asked.kernels): torch.cuda._sleep(1_980_000)  # 1 ms each, queued ahead
    loss = model(batch.cuda(non_blocking=True)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if asked.sleep_ms: time.sleep(asked.sleep_ms / 1e3)
    if asked.later and asked.process_index and n == 40:
        held.append(torch.empty(asked.later << 30, dtype=torch.uint8, device="cuda"))
"""


def shared(made: Any, *options: str, task: tuple[str, ...]) -> "subprocess.CompletedProcess[str]":
    """Run `gputune share` on a machine's card to its end."""
    script: Path = made.folder / "task.py"
    script.write_text(TASK)
    return subprocess.run(
        [*GPUTUNE, "share", "--json", "--trial", "2", *options, str(script), *task],
        env=made.environment(), cwd=made.folder, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def test_two_that_leave_the_card_idle_do_more_together(machine: Maker) -> None:
    done = shared(machine(), "--procs", "2", task=("--steps", "800", "--sleep_ms", "30"))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["at_once"] == 2
    assert found["gain"] > 1.4  # 4 ms of 34 each: the card has time for all of both
    for row in found["procs"]:
        assert row["device_memory"] == pytest.approx(1.5 * GIB, rel=0.1)  # what is held, and a context


def test_copies_that_do_not_fit_are_refused_with_the_numbers_and_none_is_left(machine: Maker) -> None:
    made = machine()
    made.cards.set(memory_total=80 * GIB, memory_reserved=0)
    done = shared(made, "--procs", "3", task=("--gib", "30", "--steps", "100000", "--sleep_ms", "20"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "3 copies do not fit on GPU 0" in done.stderr
    assert "hint: `--procs 2` fits" in done.stderr
    assert made.run("\nprint(torch.cuda.mem_get_info()[0] >> 30)") == ["79"]


def test_with_a_queue_as_many_run_at_once_as_fit(machine: Maker) -> None:
    made = machine()
    made.cards.set(memory_total=80 * GIB, memory_reserved=0)
    done = shared(made, "--procs", "3", "--queue", task=("--gib", "30", "--steps", "200", "--sleep_ms", "20"))
    assert done.returncode == 0, done.stderr
    assert "2 of 3 run at once" in done.stderr
    assert [row["exit_code"] for row in json.loads(done.stdout)["procs"]] == [0, 0, 0]  # nobody ran out of memory


def test_one_that_grows_later_runs_out_of_memory_alone_and_says_so(machine: Maker) -> None:
    made = machine()
    made.cards.set(memory_total=80 * GIB, memory_reserved=0)
    task = ("--gib", "30", "--later", "30", "--steps", "500", "--sleep_ms", "20")
    done = shared(made, "--procs", "2", "--min-gain", "0.1", task=task)
    found = json.loads(done.stdout)
    assert [row["exit_code"] for row in found["procs"]] == [0, 1], done.stderr
    assert "memory" in found["procs"][1]["why"], found["procs"]
    assert "torch.OutOfMemoryError" in Path(found["procs"][1]["log"]).read_text()


@pytest.mark.flaky(reruns=1, reason="the card goes by the host's clock, which may stand still meanwhile")
def test_two_that_fill_the_card_each_do_together_what_one_does(machine: Maker) -> None:
    """Launches are queued far ahead of the card, so on the host's clock both would seem to run at full speed."""
    task = ("--steps", "1500", "--kernels", "12")
    done = shared(machine(), "--procs", "2", "--min-gain", "0.1", task=task)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["alone"] == pytest.approx(4 / 0.012, rel=0.1)
    assert found["gain"] == pytest.approx(1.0, abs=0.08), (found["alone"], found["together"])
    assert found["limit"] == "device"
