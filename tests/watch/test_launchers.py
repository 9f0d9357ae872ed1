"""Launchers that start the training in processes of their own: each rank is heard, one verdict is given."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
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
JOINED = {
    "before": "import torch.distributed as dist\ntorch.set_num_threads(1)\n"
    "rank, size = (int(os.environ[name]) for name in ({rank!r}, {size!r}))\n"
    "dist.init_process_group('gloo', init_method='file://' + os.path.abspath('store'), rank=rank, world_size=size)",
    "prepare": "model = torch.nn.parallel.DistributedDataParallel(model)\n"
    "loader = DataLoader(Slow(), 4, sampler=torch.utils.data.DistributedSampler(Slow()))",
    "backward": "model(batch).sum().backward()",
}
LAUNCH = """
import os, subprocess, sys
rank, size, local = sys.argv[1:4]
started = [
    subprocess.Popen(sys.argv[4:], env={**os.environ, rank: str(n), size: "2", local: str(n)}) for n in range(2)
]
sys.exit(max(process.wait() for process in started))
"""
RAY = """
import os, ray, torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch.utils.data import DataLoader, TensorDataset

def loop():
    torch.set_num_threads(1)
    model = prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for (x,) in prepare_data_loader(DataLoader(TensorDataset(torch.randn(640, 8)), 4)):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

ray.init(num_cpus=4, include_dashboard=False)
config = RunConfig(name="run", storage_path=os.path.abspath("ray"))
TorchTrainer(loop, scaling_config=ScalingConfig(num_workers=2), run_config=config).fit()
ray.shutdown()
"""
MPI = ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK")
HOROVOD = ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK")
SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")
POD = ("RANK", "WORLD_SIZE", "LOCAL_RANK")  # of a PyTorchJob, and what torchrun sets
pytestmark = pytest.mark.long


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


def met(found: dict) -> None:
    """Two ranks of one job were heard, and when they met."""
    heard(found, ranks=2)
    assert [process["world_size"] for process in found["processes"]] == [2, 2]
    assert all(process["rounds"] > 0 for process in found["processes"])


def joined(names: tuple[str, str, str]) -> dict[str, str]:
    """Return the parts of a training whose ranks find each other by these variables."""
    return {**JOINED, "before": JOINED["before"].format(rank=names[0], size=names[1])}


def test_each_rank_of_torchrun_is_heard(watch, tmp_path) -> None:
    torchrun = launcher("torchrun")
    met(verdict(watch, tmp_path, torchrun, "--standalone", "--nproc-per-node", "2", **joined(POD)))


@pytest.mark.parametrize("names", [HOROVOD, SLURM, POD], ids=["horovod", "slurm", "pytorchjob"])
def test_ranks_are_known_by_the_variables_of_their_launcher(watch, tmp_path, names) -> None:
    pytest.importorskip("torch", reason="ranks of a real training are joined")
    (tmp_path / "launch.py").write_text(LAUNCH)
    command = (sys.executable, "launch.py", *names, sys.executable)
    met(verdict(watch, tmp_path, *command, **joined(names)))


def mpirun(monkeypatch) -> tuple[str, ...]:
    """Return the start of a command line that starts two ranks by mpirun."""
    pytest.importorskip("torch", reason="ranks of a real training are joined")
    found = shutil.which("mpirun")
    if found is None:
        pytest.skip("no `mpirun` is installed")
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):  # as in a container
        monkeypatch.setenv(name, "1")
    return (found, "-np", "2")


def test_one_watch_around_mpirun_hears_its_ranks(watch, tmp_path, monkeypatch) -> None:
    command = mpirun(monkeypatch)
    met(verdict(watch, tmp_path, *command, sys.executable, **joined(MPI)))


def test_watches_that_mpirun_starts_give_one_verdict_on_all_ranks(tmp_path, monkeypatch) -> None:
    (tmp_path / "train.py").write_text(TRAIN.format(**joined(MPI)))
    watched = (sys.executable, "-m", "gputune", "watch", "--json", "verdict.json", "--", sys.executable, "train.py")
    command = (*mpirun(monkeypatch), *watched)
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    if "the verdict is without" in done.stderr:
        pytest.skip(f"this machine was too busy for one watch to wait for the other: {done.stderr}")
    assert done.stderr.count("gputune: ") == 1, done.stderr
    assert "2 ranks" in done.stderr
    met(json.loads((tmp_path / "verdict.json").read_text()))


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("ray", "pandas", "pyarrow"))), reason="`ray[train]` is not installed"
)
def test_each_rank_of_ray_train_is_heard(watch, tmp_path, monkeypatch) -> None:
    pytest.importorskip("torch", reason="ranks of a real training are joined")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    (tmp_path / "train.py").write_text(RAY)
    done = watch("--json", "verdict.json", "--", sys.executable, "train.py", env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("gputune: ") == 1, done.stderr
    met(json.loads((tmp_path / "verdict.json").read_text()))


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
