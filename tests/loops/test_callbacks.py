"""Callbacks of the real trainers: the examples of docs/api.md, their losses bit for bit those without, their metrics.

`make loops` runs them in an environment that has the packages.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not os.environ.get("GPUTUNE_LOOPS"), reason="`make loops` runs them, with their packages"),
]

DOCUMENT = Path(__file__).parents[2] / "docs" / "api.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), flags=re.DOTALL)
ASSUMED = """
import time, torch
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 240

    def __getitem__(self, i):
        time.sleep(0.002)
        x = torch.randn(8, generator=torch.Generator().manual_seed(i))
        return {"x": x, "labels": i % 2} if NAMED else (x, i % 2)

torch.manual_seed(7)
net, losses = torch.nn.Linear(8, 2), []

def loss_of(x, labels):
    loss = torch.nn.functional.cross_entropy(net(x), labels)
    losses.append(loss.item().hex())
    return loss
"""
LIGHTNING = """
import lightning

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net

    def training_step(self, batch, _index):
        return loss_of(*batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

module, loader = Module(), DataLoader(Slow(), batch_size=4, shuffle=True)
"""
TRANSFORMERS = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net

    def forward(self, x, labels):
        return {"loss": loss_of(x, labels)}

model, dataset = Model(), Slow()
"""
ACCELERATE = """
def train():
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    model, prepared, loader = accelerator.prepare(net, optimizer, DataLoader(Slow(), batch_size=4, shuffle=True))
    for x, labels in loader:
        accelerator.backward(loss_of(x, labels))
        prepared.step()
        prepared.zero_grad()
"""
TELL = "\nimport json; print('TOLD', json.dumps([losses, METRICS]))\n"
# package: (what its example assumes, what it is without us, its metrics)
TRAINERS = {
    "lightning": (LIGHTNING, ("callbacks=[GputuneCallback()]", "callbacks=[]"),
                  "{k: float(v) for k, v in trainer.callback_metrics.items()}"),
    "transformers": (TRANSFORMERS, ("callbacks=[GputuneCallback()]", "callbacks=[]"), "trainer.state.log_history[-1]"),
    "accelerate": (ACCELERATE, ("with recorded(accelerator) as run:", "if True:"), "{}"),
}  # fmt: skip
NEEDED = {"transformers": ("accelerate",), "accelerate": ("tensorboard",)}


def example(package: str) -> str:
    """Return what docs/api.md has for a trainer, told apart from gputune's own modules by its first import."""
    (found,) = [e for e in EXAMPLES if f"gputune.integrations.{package}" in e]
    return found


def run(
    folder: Path, package: str, *, bare: bool = False, around: bool = False
) -> "tuple[list[str], dict[str, Any], str]":
    for name in (package, *NEEDED.get(package, ())):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed: `make loops` has it")
    assumed, (ours, theirs), metrics = TRAINERS[package]
    code = example(package)
    assert ours in code
    if bare:
        code = code.replace(ours, theirs)
    lines = f"NAMED = {package == 'transformers'}" + ASSUMED + assumed + code + TELL.replace("METRICS", metrics)
    folder.mkdir()
    (folder / "own.py").write_text(lines)
    plain = {key: value for key, value in os.environ.items() if not key.startswith("GPUTUNE_")}
    watch = [sys.executable, "-m", "gputune", "watch", "--out", "watched", "--"] if around else []
    done = subprocess.run(
        [*watch, sys.executable, "own.py"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        env={**plain, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (told,) = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    losses, found = json.loads(told.removeprefix("TOLD "))
    return losses, found, done.stderr


@pytest.mark.parametrize("package", TRAINERS)
def test_losses_are_bit_for_bit_those_without_and_metrics_have_what_was_found(package: str, tmp_path: Path) -> None:
    losses, metrics, said = run(tmp_path / "recorded", package)
    assert losses == run(tmp_path / "bare", package, bare=True)[0]
    assert len(losses) > 50
    assert len(re.findall(r"^gputune: python own\.py", said, flags=re.MULTILINE)) == 1
    (folder,) = (tmp_path / "recorded" / "gputune-runs").glob("*-own")
    verdict = json.loads((folder / "findings.json").read_text())
    assert verdict["batches"] == len(losses)
    if package == "accelerate":
        metrics = logged(tmp_path / "recorded" / "results")
    assert metrics["gputune/batches"] == len(losses)
    assert 0 < metrics["gputune/waiting"] <= 1


def logged(folder: Path) -> dict[str, float]:
    """Return what TensorBoard has of its only run."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (events,) = {file.parent for file in folder.rglob("events.*")}
    found = EventAccumulator(str(events))
    found.Reload()
    return {name: found.Scalars(name)[-1].value for name in found.Tags()["scalars"]}


@pytest.mark.parametrize("package", TRAINERS)
def test_under_gputune_watch_they_give_way_and_both_say_so(package: str, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    _losses, metrics, said = run(folder, package, around=True)
    assert said.count("this `gputune.watch` records nothing: the watch around it does") == 1
    assert said.count("in the script recorded nothing: this watch around it does\n") == 1
    assert "gputune/batches" not in metrics
    assert not (folder / "gputune-runs").exists()


FAILS = """
import lightning
from gputune.integrations.lightning import GputuneCallback
mine = KeyError("mine")

class Failing(Module):
    def training_step(self, batch, index):
        if index == 9:
            raise mine
        return super().training_step(batch, index)

try:
    lightning.Trainer(max_epochs=1, logger=False, callbacks=[GputuneCallback()]).fit(Failing(), loader)
except KeyError as error:
    assert error is mine and error.__cause__ is None
"""


def test_a_fit_that_fails_has_its_verdict_and_its_own_error(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="lightning is not installed: `make loops` has it")
    (tmp_path / "own.py").write_text("NAMED = False" + ASSUMED + LIGHTNING + FAILS)
    done = subprocess.run(
        [sys.executable, "own.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "10 batches" in done.stderr


RANKS = """
from gputune.integrations.lightning import GputuneCallback
if __name__ == "__main__":
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", logger=False,
                                enable_progress_bar=False, callbacks=[GputuneCallback()])
    trainer.fit(module, loader)
    print("TOLD", trainer.global_rank, float(trainer.callback_metrics["gputune/batches"]))
"""


def test_ranks_that_lightning_starts_are_one_run_and_the_lowest_speaks(tmp_path: Path) -> None:
    pytest.importorskip("lightning", reason="lightning is not installed: `make loops` has it")
    (tmp_path / "own.py").write_text("NAMED = False" + ASSUMED + LIGHTNING + RANKS)
    done = subprocess.run(
        [sys.executable, "own.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^gputune: python own\.py", done.stderr, flags=re.MULTILINE)) == 1
    assert "2 ranks" in done.stderr
    assert "not seen from inside" not in done.stderr
    assert "TOLD 0 60.0" in done.stdout
    (job,) = (tmp_path / "gputune-runs").glob("*-own")
    assert sorted(seat.name for seat in job.glob("rank-*")) == ["rank-00000", "rank-00001"]
