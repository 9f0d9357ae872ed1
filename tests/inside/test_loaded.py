"""`gputune.load`: tables and findings of a run, and what is said of folders that hold none."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import gputune
from gputune.recording.folder import TABLES
from gputune.verdict.document import FindingRow, Verdict
from tests.inside.conftest import TRAINING, plain


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run of 60 batches."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "own.py").write_text(TRAINING + "import gputune\nwith gputune.watch('run', quiet=True):\n    train()\n")
    subprocess.run([sys.executable, "own.py"], cwd=folder, env=plain(), check=True, timeout=200)
    return folder / "run"


@pytest.fixture
def copied(recorded: Path, tmp_path: Path) -> Path:
    """Return a copy of it, to be damaged."""
    return Path(shutil.copytree(recorded, tmp_path / "copy"))


def change(file: Path, **fields: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def test_every_table_is_arrow_pandas_and_polars(recorded: Path) -> None:
    run = gputune.load(recorded)
    for name in TABLES:
        table = run.table(name)  # type: ignore[arg-type] # the names that mypy knows one by one
        assert len(table) == table.arrow().num_rows == len(table.pandas()) == len(table.polars()), name
        assert table.arrow().column_names == list(table.pandas().columns) == table.polars().columns, name
    batches = run.table("batches")
    assert len(batches) == 61  # and the end of the iterator
    assert batches.pandas()["wait"].sum() == pytest.approx(batches.polars()["wait"].sum())
    assert len(run.table("gaps")) == 0


def test_findings_are_objects(recorded: Path) -> None:
    run = gputune.load(str(recorded))
    assert (run.state, run.about["gputune"], run.ranks) == ("ended", gputune.__version__, [])
    assert isinstance(run.verdict, Verdict)
    assert run.verdict.batches == 60
    assert all(isinstance(finding, FindingRow) and finding.says for finding in run.findings)
    assert repr(run) == f"<gputune run {recorded}: ended>"


def test_a_table_that_no_run_has_is_named_with_those_that_it_has(recorded: Path) -> None:
    with pytest.raises(gputune.NoTable, match="a run has no table `losses`"):
        gputune.load(recorded).table("losses")  # type: ignore[arg-type] # what mypy would refuse


@pytest.mark.parametrize("name", ["nowhere", "empty", "file"])
def test_what_is_no_run_is_said_to_be_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(gputune.NotARun, match="is no run folder"):
        gputune.load(tmp_path / name)


def test_a_run_of_a_newer_version_is_refused(copied: Path) -> None:
    change(copied / "findings.json", schema_version=99)
    with pytest.raises(gputune.NewerRun, match="schema version 99"):
        _ = gputune.load(copied).verdict
    change(copied / "run.json", schema_version=99)
    with pytest.raises(gputune.NewerRun, match="schema version 99"):
        gputune.load(copied)


def test_a_verdict_that_is_damaged_or_gone(copied: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gputune.load(copied).verdict.batches == 60
    (copied / "findings.json").write_text("{")
    for _ in range(2):
        with pytest.warns(UserWarning, match="has no verdict of its own: what was recorded is judged now") as warned:
            assert gputune.load(copied).verdict.batches == 60
        assert warned[0].filename == __file__
        (copied / "findings.json").unlink(missing_ok=True)


def test_a_damaged_table_is_said_to_be_damaged(copied: Path) -> None:
    (part,) = (copied / "batches").iterdir()
    part.write_bytes(part.read_bytes()[:-100])
    run = gputune.load(copied)
    assert run.verdict.batches == 60
    with pytest.raises(gputune.Damaged):
        run.table("batches")


def test_a_run_that_goes_on_and_one_whose_recorder_was_killed(tmp_path: Path, eventually: Callable[..., None]) -> None:
    lines = """
import gputune, sys
run = gputune.watch("run").start()
losses = train()
print(run._joined._recorder, flush=True)
sys.stdin.readline()
run.stop()
"""
    (tmp_path / "own.py").write_text(TRAINING + lines)
    with subprocess.Popen(
        [sys.executable, "own.py"], cwd=tmp_path, env=plain(), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as training:  # fmt: skip
        assert training.stdout is not None
        recorder = int(training.stdout.readline())
        eventually(lambda: gputune.load(tmp_path / "run").verdict.batches >= 60)
        assert gputune.load(tmp_path / "run").state == "live"
        os.kill(recorder, 9)
        said = training.communicate("\n", timeout=60)
    assert training.returncode == 0
    assert (
        said[1]
        == f"gputune: the recorder has left no verdict: `gputune report {tmp_path / 'run'}` shows what there is\n"
    )
    run = gputune.load(tmp_path / "run")
    assert run.about["finished"] is False
    assert run.verdict.batches == 60  # in silence for some seconds: it may be going on
    assert len(run.table("batches")) == 61
