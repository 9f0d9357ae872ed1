"""The verdict stands in the run of MLflow that the script logged to."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune import exporters
from gputune.core.errors import GputuneError
from gputune.exporters import ExportRequest
from gputune.verdict.document import Verdict

mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: `pip install mlflow-skinny`")
Judged = Callable[..., tuple[Path, Verdict]]
BEGIN = """
import mlflow
mlflow.set_tracking_uri("./mlruns")
def begin():
    print(mlflow.start_run().info.run_id, file=open("id", "w"))
    return lambda step, loss: mlflow.log_metric("loss", loss, step=step)
end = mlflow.end_run
"""


@pytest.fixture(autouse=True)
def files_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")


def client(store: Path) -> Any:
    from mlflow.tracking.client import MlflowClient

    return MlflowClient(tracking_uri=str(store))


def test_it_goes_to_the_run_of_the_script_and_changes_nothing_of_it(watched: Callable[..., Path]) -> None:
    folder = watched(BEGIN, "mlflow", MLFLOW_ALLOW_FILE_STORE="true")
    number = (folder.parent / "id").read_text().strip()
    assert (folder / "export.log").read_text() == f"mlflow: {number}\n"
    found = client(folder.parent / "mlruns").get_run(number)
    assert found.info.status == "FINISHED"
    assert found.data.metrics["gputune/batches"] == 20.0
    assert "loss" in found.data.metrics
    artifacts = folder.parent / "mlruns" / "0" / number / "artifacts" / "gputune"
    assert (artifacts / "findings.json").read_bytes() == (folder / "findings.json").read_bytes()


def test_without_a_run_of_the_script_one_of_the_run_s_name_is_made(
    judged: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "mlruns"))
    folder, verdict = judged()
    (folder / "report.html").write_text("<p>page")
    sent = exporters.export("mlflow", ExportRequest(run=folder, typed="run", say=print))
    found = client(tmp_path / "mlruns").get_run(sent.where)
    assert found.info.run_name == "run"
    assert found.info.status == "FINISHED"
    assert found.data.tags["gputune/says"] == verdict.findings[0].says
    assert found.data.metrics["gputune/speedup"] == 2.0
    artifacts = tmp_path / "mlruns" / "0" / sent.where / "artifacts" / "gputune"
    assert sorted(file.name for file in artifacts.iterdir()) == ["findings-table.json", "findings.json", "report.html"]
    table = json.loads((artifacts / "findings-table.json").read_text())
    assert dict(zip(table["columns"], table["data"][0], strict=True))["do"] == "set num_workers=4"
    assert json.loads(found.data.tags["mlflow.loggedArtifacts"]) == [
        {"path": "gputune/findings-table.json", "type": "table"}
    ]


def test_a_run_that_is_gone_and_a_server_that_is_not_there_are_said(judged: Judged, tmp_path: Path) -> None:
    (tmp_path / "mlruns").mkdir()
    folder, _ = judged({"n": "tracker", "kind": "mlflow", "id": "f" * 32, "address": str(tmp_path / "mlruns")})
    with pytest.raises(GputuneError, match=r"mlflow was not told: Run 'f+' not found"):
        exporters.export("mlflow", ExportRequest(run=folder, typed="run", say=print))
    nobody = {"n": "tracker", "kind": "mlflow", "id": "f" * 32, "address": "http://127.0.0.1:9"}
    folder, _ = judged(nobody, name="other")
    with pytest.raises(GputuneError, match="mlflow was not told: API request"):
        exporters.export("mlflow", ExportRequest(run=folder, typed="run", say=print, own=True))


def test_a_server_that_a_run_folder_names_is_not_asked_unless_the_user_names_it_too(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = {"n": "tracker", "kind": "mlflow", "id": "f" * 32, "address": "http://127.0.0.1:9"}
    folder, _ = judged(note)
    with pytest.raises(GputuneError, match=r"the script's run of mlflow is at `http://127.0.0.1:9`") as refused:
        exporters.export("mlflow", ExportRequest(run=folder, typed="run", say=print))
    assert "`MLFLOW_TRACKING_URI=http://127.0.0.1:9 gputune export run --to mlflow`" in refused.value.hint
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with pytest.raises(GputuneError, match="mlflow was not told: API request"):
        exporters.export("mlflow", ExportRequest(run=folder, typed="run", say=print))
