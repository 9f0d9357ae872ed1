"""`watch --export`: after the verdict, in a process of its own; whatever becomes of it, the status is the command's."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gputune import exporters
from gputune.launch import values
from gputune.watching.recorder import afterwards

Watch = Callable[..., "subprocess.CompletedProcess[str]"]


def test_the_short_road_knows_the_same_exporters() -> None:
    assert tuple(values.exporters()) == exporters.names()
    assert values.exporting("csv, perfetto,csv") == "csv,perfetto"
    assert values.exporting("csv,") is None


def test_the_status_is_the_command_s_and_each_exporter_tells_how_it_went(
    watch: Watch, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    done = watch("--out", "run", "--export", "csv,perfetto", "--", "sh", "-c", "sleep 1; exit 7")
    assert done.returncode == 7
    assert "export: csv, perfetto, in a moment; run/export.log says how it went" in done.stderr
    log = tmp_path / "run" / "export.log"
    eventually(lambda: log.exists() and len(log.read_text().splitlines()) == 2)
    assert log.read_text() == "csv: run/csv\nperfetto: run/perfetto.json.gz\n"
    assert log.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "run" / "csv" / "samples.csv").exists()


def test_what_cannot_be_exported_is_told_in_the_log(
    watch: Watch, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    done = watch("--quiet", "--out", "run", "--export", "perfetto", "--", "true")
    assert (done.returncode, done.stderr) == (0, "")
    log = tmp_path / "run" / "export.log"
    eventually(log.exists)
    assert log.read_text().startswith("perfetto: error: `run` holds no readings; hint: ")


def test_the_environment_may_ask_for_it_and_it_is_not_asked_for_again_inside(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    monkeypatch.setenv("GPUTUNE_EXPORT", "csv")
    done = watch("--out", "run", "--", "sh", "-c", "sleep 1; env | grep -c GPUTUNE_EXPORT")
    assert done.stdout == "0\n"
    eventually((tmp_path / "run" / "export.log").exists)


def test_a_name_that_is_none_is_refused_before_anything_runs(watch: Watch, tmp_path: Path) -> None:
    done = watch("--export", "nowhere", "--", "touch", "ran")
    assert done.returncode == 2
    assert "`--export nowhere` is not any of csv, " in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_package_that_is_not_there_is_said_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[tuple[str, ...]] = []
    monkeypatch.setattr(exporters, "lacking", lambda name: "wandb" if name == "wandb" else "")
    monkeypatch.setattr("gputune.watching.recorder.afterwards.begin", lambda _code, *words: begun.append(words) or "")
    troubles, told = afterwards.export(str(tmp_path), "run", ["wandb", "csv"], paged=False)
    says = "nothing goes to wandb: the package `wandb` is not installed beside gputune"
    assert troubles == [f"{says} (`{sys.executable} -m pip install wandb`)"]
    assert told == "export: csv, in a moment; run/export.log says how it went"
    assert begun == [(str(tmp_path), "run", "", "csv")]
