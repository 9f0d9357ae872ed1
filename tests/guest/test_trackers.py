"""The run that a script logs to is noted: once, with what leads there, and without a secret."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TENSORBOARD = """
import torch
from torch.utils.tensorboard import SummaryWriter
for _ in range(2):
    with SummaryWriter("logs/a") as writer:
        writer.add_scalar("loss", 1.0, 1)
"""


def test_the_folder_of_a_summary_writer(watched: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    run = watched(TENSORBOARD).healthy()
    (note,) = run.notes("tracker")
    assert (note["kind"], note["id"]) == ("tensorboard", "logs/a")
    assert Path(str(note["folder"])).is_dir()
    assert Path(str(note["folder"])).is_absolute()


WANDB = """
import torch, wandb
{first}
run = wandb.init(project="mine", id="abc123", mode="{mode}")
run.log({{"loss": 1.0}})
wandb.log({{"loss": 2.0}})
run.finish()
"""


@pytest.mark.parametrize("early", [False, True])
def test_the_run_of_wandb(watched: Callable[..., Any], early: bool) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    code = WANDB.format(first="", mode="offline")
    code = code.replace("import torch, wandb", "import wandb") + "import torch\n" if early else code
    code = (
        code.replace("run.finish()\n", "").replace("import torch\n", "import torch\nrun.finish()\n") if early else code
    )
    (note,) = watched(code, env={"WANDB_SILENT": "true"}).healthy().notes("tracker")
    assert (note["kind"], note["id"], note["project"], note["offline"]) == ("wandb", "abc123", "mine", True)
    assert "offline-run-" in Path(str(note["folder"])).name


def test_a_run_of_wandb_that_is_switched_off_is_none(watched: Callable[..., Any]) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    assert watched(WANDB.format(first="", mode="disabled")).healthy().notes("tracker") == []


MLFLOW = """
import mlflow, torch
mlflow.set_tracking_uri({address!r})
try:
    with mlflow.start_run(run_name="x") as run:
        mlflow.log_metric("loss", 1.0)
        mlflow.log_metrics({{"loss": 2.0, "acc": 1.0}})
        print(run.info.run_id)
except Exception as error:
    print(type(error).__name__)
"""


def test_the_run_of_mlflow(watched: Callable[..., Any]) -> None:
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    run = watched(MLFLOW.format(address="./mlruns"), env={"MLFLOW_ALLOW_FILE_STORE": "true"}).healthy()
    (note,) = run.notes("tracker")
    assert (note["kind"], note["id"]) == ("mlflow", run.out.split()[-1])
    assert str(note["address"]).endswith("/mlruns")


CLIENT = """
class MlflowClient:
    tracking_uri = {address!r}
    def log_batch(self, run_id, metrics=()):
        return run_id
"""
LOGS = """
import torch, mlflow.tracking.client as client
for run in {runs!r}:
    client.MlflowClient().log_batch(run)
    assert client.MlflowClient().log_batch(run_id=run) == run
"""


@pytest.fixture
def pretended(tmp_path: Path) -> Callable[[str], None]:
    """Return a maker of an MLflow beside the script whose runs are at an address."""

    def make(address: str) -> None:
        folder = tmp_path / "mlflow" / "tracking"
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").touch()
        (folder / "__init__.py").touch()
        (folder / "client.py").write_text(CLIENT.format(address=address))

    return make


def test_no_password_of_an_address_is_noted(watched: Callable[..., Any], pretended: Callable[[str], None]) -> None:
    pretended("https://me:hunter2@host/mlflow")
    (note,) = watched(LOGS.format(runs=["r1"])).healthy().notes("tracker")
    assert note["address"] == "https://host/mlflow"


def test_a_search_of_many_runs_does_not_fill_the_notes(
    watched: Callable[..., Any], pretended: Callable[[str], None]
) -> None:
    pretended("sqlite:///some.db")
    notes = watched(LOGS.format(runs=[f"r{n}" for n in range(50)])).healthy().notes("tracker")
    assert [note["id"] for note in notes] == [f"r{n}" for n in range(16)]
    assert str(notes[0]["address"]).startswith("sqlite:////")
