"""The tables as CSV: every row and column of the recording, and what each column is."""

import csv
import errno
import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gputune.core.errors import BadUsage, GputuneError
from gputune.exporters import ExportRequest
from gputune.exporters import csv as exporter
from gputune.recording import Recording, load

Rows = list[dict[str, str]]


def exported(folder: Path, **wish: Any) -> dict[str, Rows]:
    sent = exporter.export(ExportRequest(run=folder, typed=str(folder), say=print, **wish))
    assert sent.lost == {}
    return {file.stem: list(csv.DictReader(file.open())) for file in sorted(Path(sent.where).glob("*.csv"))}


def test_each_table_has_its_rows_and_its_columns(run: Callable[..., Path]) -> None:
    folder = run(5)
    found = exported(folder)
    for name, table in load(folder).tables.items():
        assert len(found.get(name, [])) == len(table), name
        if len(table):
            assert set(found[name][0]) == {*table.column_names} - {"us"}


def test_a_table_that_may_not_be_read_is_not_told_of_as_one_that_is_not_written(
    run: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openat = os.open

    def refusing(path: Any, flags: int, mode: int = 0o777, *, dir_fd: "int | None" = None) -> int:
        if path == "batches":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return openat(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(GputuneError, match=r"/batches` cannot be read: Permission denied"):
        exported(run(5), out=tmp_path / "tables")


def test_times_and_durations_are_those_of_the_recording(run: Callable[..., Path]) -> None:
    folder = run(5)
    rows = load(folder).tables["batches"].to_pylist()
    for row, line in zip(rows, exported(folder)["batches"], strict=True):
        assert line["time"] == f"{row['time']:%Y-%m-%d %H:%M:%S}.{row['time'].microsecond + row['us']:06d}Z"
        assert (float(line["wait"]), int(line["index"])) == (row["wait"], row["index"])


def test_every_column_is_told_of_with_its_unit(run: Callable[..., Path]) -> None:
    found = exported(run(5))
    told = {(row["table"], row["column"]): row for row in found.pop("columns")}
    assert told.keys() == {(table, column) for table, rows in found.items() for column in rows[0]}
    assert told["samples", "gpu.power[0]"]["unit"] == "W"
    assert told["samples", "gpu.energy[0]"]["kind"] == "counter"
    assert told["batches", "wait"]["unit"] == told["fetches", "cpu"]["unit"] == "s"
    assert told["fetches", "bytes"]["unit"] == "B"
    plain = {name for name in told if name[0] != "events"}  # whose numbers mean something else for each kind
    assert all(told[name]["meaning"] for name in plain)


def test_a_stretch_of_time_is_enough(run: Callable[..., Path]) -> None:
    assert [row["index"] for row in exported(run(5), since=1.0, until=1.5)["batches"]] == ["4", "5", "6"]


def test_a_stretch_leaves_nothing_of_the_one_before(run: Callable[..., Path]) -> None:
    folder = run(5)
    assert "spans" in exported(folder)
    assert "spans" not in exported(folder, since=3.0, until=4.0)


def test_an_archive_holds_the_same(run: Callable[..., Path], tmp_path: Path) -> None:
    folder = run(5)
    plain = exported(folder)
    exporter.export(ExportRequest(run=folder, typed="run", say=print, out=tmp_path / "tables.zip"))
    with zipfile.ZipFile(tmp_path / "tables.zip") as archive:
        names = {name.removesuffix(".csv") for name in archive.namelist()}
        assert names == plain.keys()
        text = archive.read("batches.csv").decode()
    assert list(csv.DictReader(io.StringIO(text))) == plain["batches"]


def test_a_run_that_goes_on_gives_what_is_there(recorded: Callable[..., tuple[Recording, Path]]) -> None:
    recording, folder = recorded(3)
    assert len(exported(folder)["batches"]) == 15
    recording.close()


def test_what_is_in_a_folder_stays(run: Callable[..., Path], tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "samples.csv").write_text("mine")
    with pytest.raises(BadUsage, match="is not empty"):
        exporter.export(ExportRequest(run=run(1), typed="run", say=print, out=mine))
    assert (mine / "samples.csv").read_text() == "mine"


def test_no_link_in_a_run_folder_is_followed(run: Callable[..., Path], tmp_path: Path) -> None:
    folder = run(1)
    (tmp_path / "elsewhere").mkdir()
    (folder / "csv").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadUsage, match="is a link"):
        exporter.export(ExportRequest(run=folder, typed="run", say=print))
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_said(run: Callable[..., Path]) -> None:
    folder = run(1)
    folder.chmod(0o500)
    with pytest.raises(GputuneError, match="cannot be written"):
        exporter.export(ExportRequest(run=folder, typed="run", say=print))


def test_files_are_this_user_s_alone(run: Callable[..., Path]) -> None:
    folder = run(1)
    exported(folder)
    assert {file.stat().st_mode & 0o777 for file in (folder / "csv").iterdir()} == {0o600}
