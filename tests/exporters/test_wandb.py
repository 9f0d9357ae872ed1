"""The verdict goes to the run of wandb that the script logged to, offline as that was."""

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputune import exporters
from gputune.core.errors import GputuneError
from gputune.exporters import ExportRequest
from gputune.verdict.document import Verdict

pytest.importorskip("wandb", reason="wandb is not installed")
Judged = Callable[..., tuple[Path, Verdict]]
BEGIN = """
import wandb
def begin():
    global run
    run = wandb.init(project="mine", id="abc123", mode="offline", dir=".")
    return lambda step, loss: run.log({"loss": loss})
def end():
    run.finish()
"""
HEADER, BLOCK = 7, 32768  # B of a transaction log's records and blocks: that of LevelDB


def records(folder: Path) -> Iterator[Any]:
    """Yield what is in the transaction log of an offline run, as `wandb sync` sends it."""
    from wandb.proto.wandb_internal_pb2 import Record

    (file,) = folder.glob("*.wandb")
    data, at, part = file.read_bytes(), HEADER, b""
    while at + HEADER <= len(data):
        if BLOCK - at % BLOCK < HEADER:
            at += BLOCK - at % BLOCK
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        part += data[at + HEADER : at + HEADER + size]
        at += HEADER + size
        if kind in {1, 4}:  # whole, or the last part of one
            record = Record()
            record.ParseFromString(part)
            part = b""
            yield record


def of(folder: Path, kind: str) -> list[Any]:
    return [getattr(record, kind) for record in records(folder) if record.WhichOneof("record_type") == kind]


def summary(folder: Path) -> dict[str, Any]:
    return {u.key: json.loads(u.value_json) for told in of(folder, "summary") for u in told.update if u.key}


def test_it_goes_to_the_run_of_the_script_and_adds_nothing_to_its_history(watched: Callable[..., Path]) -> None:
    folder = watched(BEGIN, "wandb", WANDB_SILENT="true")
    runs = sorted((folder.parent / "wandb").glob("offline-run-*-abc123"), key=lambda run: run.stat().st_mtime)
    assert len(runs) == 2
    (told,) = [run for run in runs if "gputune/batches" in summary(run)]
    assert f"wandb sync {told}" in (folder / "export.log").read_text()
    assert [(run.run_id, run.project) for run in of(told, "run")] == [("abc123", "mine")]
    assert summary(told)["gputune/batches"] == 20.0
    assert of(told, "history") == []
    artifacts = {a.name: [e.path for e in a.manifest.contents] for a in of(told, "artifact")}
    assert artifacts["gputune-abc123"] == ["findings.json"]
    assert of(told, "exit")[0].exit_code == 0


def test_without_a_run_of_the_script_one_of_the_run_s_name_is_made(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    folder, verdict = judged()
    (folder / "report.html").write_text("<p>page")
    sent = exporters.export("wandb", ExportRequest(run=folder, typed="run", say=print))
    made = Path(sent.where)
    (run,) = of(made, "run")
    assert (run.display_name, run.project) == ("run", "gputune")
    assert summary(made)["gputune/says"] == verdict.findings[0].says
    assert summary(made)["gputune/findings"]["_type"] == "table-file"
    artifacts = {a.name: [e.path for e in a.manifest.contents] for a in of(made, "artifact")}
    assert artifacts[f"gputune-{run.run_id}"] == ["findings.json", "report.html"]


def test_a_server_that_is_not_there_is_said(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    from gputune.exporters import wandb

    monkeypatch.setattr(wandb, "PATIENCE", 3.0)
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    folder, _ = judged({"n": "tracker", "kind": "wandb", "id": "abc123", "project": "mine", "offline": False})
    with pytest.raises(GputuneError, match="wandb was not told: "):
        exporters.export("wandb", ExportRequest(run=folder, typed="run", say=print))


def test_a_server_that_a_run_folder_names_gets_no_key(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    note = {
        "n": "tracker",
        "kind": "wandb",
        "id": "x",
        "project": "p",
        "offline": False,
        "address": "http://127.0.0.1:9",
    }
    folder, _ = judged(note)
    with pytest.raises(GputuneError, match=r"the script's run of wandb is at `http://127.0.0.1:9`"):
        exporters.export("wandb", ExportRequest(run=folder, typed="run", say=print))
