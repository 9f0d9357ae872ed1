"""Launchers that start the training in processes of their own: each rank is heard, one verdict is given."""

import json
import shutil
import signal
import sys
from pathlib import Path

import pytest

TRAIN = """
import os, time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self): return 160
    def __getitem__(self, i):
        time.sleep(0.001)
        return torch.zeros(3)

{before}
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(Slow(), 4)
{prepare}
for batch in loader:
    optimizer.zero_grad()
    {backward}
    optimizer.step()
"""
PLAIN = {"before": "", "prepare": "", "backward": "model(batch).sum().backward()"}
ACCELERATED = {
    "before": "from accelerate import Accelerator\naccelerator = Accelerator(cpu=True)",
    "prepare": "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)",
    "backward": "accelerator.backward(model(batch).sum())",
}
pytestmark = pytest.mark.slow


def launcher(name: str) -> str:
    """Return a launcher of the environment that the tests run in."""
    pytest.importorskip(name if name != "torchrun" else "torch", reason=f"`{name}` is not installed")
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"`{name}` is not installed")
    return found


def verdict(watch, tmp_path: Path, *command: str, **parts: str) -> dict:
    (tmp_path / "train.py").write_text(TRAIN.format(**parts))
    done = watch("--json", "verdict.json", "--", *command, "train.py")
    found = json.loads((tmp_path / "verdict.json").read_text())
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("gputune: ") == 1, done.stderr
    return found


def heard(found: dict, ranks: int) -> None:
    assert [process["seen"] for process in found["processes"]] == [True] * ranks
    assert sorted(process["rank"] or 0 for process in found["processes"]) == list(range(ranks))
    assert sum(row["share"] for row in found["ledger"]) == pytest.approx(1, abs=0.01)
    assert {loader["where"].partition(":")[0] for loader in found["loaders"]} == {"train.py"}


def test_each_rank_of_torchrun_is_heard(watch, tmp_path) -> None:
    torchrun = launcher("torchrun")
    heard(verdict(watch, tmp_path, torchrun, "--standalone", "--nproc-per-node", "2", **PLAIN), ranks=2)


def test_a_training_under_accelerate_launch_is_heard(watch, tmp_path, monkeypatch) -> None:
    accelerate = launcher("accelerate")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))  # no configuration of whoever runs the tests
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    options = ("--cpu", "--num_processes", "1", "--num_machines", "1", "--mixed_precision", "no")
    command = (accelerate, "launch", *options, "--dynamo_backend", "no")
    heard(verdict(watch, tmp_path, *command, **ACCELERATED), ranks=1)


def test_a_terminate_reaches_the_ranks_of_a_launcher(started, eventually, tmp_path) -> None:
    program = "import os, time, pathlib\npathlib.Path(f'rank{os.environ[\"RANK\"]}').write_text(str(os.getpid()))\n"
    (tmp_path / "train.py").write_text(program + "time.sleep(120)\n")
    torchrun = launcher("torchrun")
    command = (torchrun, "--standalone", "--nproc-per-node", "2", "train.py")
    with started("--quiet", "--", *command, stdout=None, stderr=None) as running:
        ranks = [tmp_path / "rank0", tmp_path / "rank1"]
        eventually(lambda: all(rank.exists() and rank.read_text() for rank in ranks))
        running.send_signal(signal.SIGTERM)
        running.wait(60)
    for rank in ranks:
        eventually(lambda rank=rank: not Path(f"/proc/{rank.read_text()}").exists())
