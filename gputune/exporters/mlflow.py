"""The verdict into the run of MLflow that the script logs to.

Numbers as metrics and words as tags `gputune/…`, the findings as a table, `findings.json` and the page as artifacts.
Where the script logs to none, a run with the name of the run's folder is made, where `MLFLOW_TRACKING_URI` says.
"""

import json
import os
from typing import Any

from gputune.exporters import ExportRequest, Sent
from gputune.exporters._told import HEAD, KEY, ExportedVerdict, asking, check_address, noted, told

TAKES: frozenset[str] = frozenset()
NEEDS = ("mlflow",)
NAME = "mlflow"
WHERE = "MLFLOW_TRACKING_URI"
HINT = "look at MLFLOW_TRACKING_URI, and whether the run is still there"
TABLE = f"{KEY}/findings-table.json"
TABLES = "mlflow.loggedArtifacts"  # a tag: which artifacts its screen shows as tables
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}  # tries, and s: by default minutes
DEFAULT = "0"  # the experiment that is always there


def export(wish: ExportRequest) -> Sent:
    """Tell the run."""
    lost: dict[str, str] = {}
    what = told(wish, lost)
    note = noted(wish, NAME)
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    with asking(NAME, HINT):
        from mlflow.tracking.client import MlflowClient  # noqa: PLC0415 - only where it is asked for

        address = str(note["address"]) if note else ""
        if note:
            check_address(wish, NAME, address, (WHERE, os.environ.get(WHERE, "")))
        client = MlflowClient(tracking_uri=address or None)
        run = str(note["id"]) if note else _made(client, wish)
        client.get_run(run)  # before anything is told: there may be none of that name
        _tell(client, run, what)
        if note is None:
            client.set_terminated(run)
    return Sent(to=NAME, where=run, lost=lost)


def _made(client: Any, wish: ExportRequest) -> str:
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "")
    known = client.get_experiment_by_name(name) if name else None
    experiment = known.experiment_id if known else client.create_experiment(name) if name else _given()
    return str(client.create_run(experiment, run_name=wish.run.resolve().name).info.run_id)


def _given() -> str:
    return os.environ.get("MLFLOW_EXPERIMENT_ID", DEFAULT)


def _tell(client: Any, run: str, what: ExportedVerdict) -> None:
    for name, value in what.summary.items():
        if isinstance(value, str):
            client.set_tag(run, name, value)
        else:
            client.log_metric(run, name, value)
    client.log_dict(run, {"columns": list(HEAD), "data": what.rows}, TABLE)
    before = json.loads(client.get_run(run).data.tags.get(TABLES, "[]"))
    table = {"path": TABLE, "type": "table"}
    client.set_tag(run, TABLES, json.dumps([*before, *([] if table in before else [table])]))
    with what.files() as files:
        for file in files:
            client.log_artifact(run, str(file), KEY)
