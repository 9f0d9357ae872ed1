"""Only run folders go: old ones, this user's, without a label, on which nobody is at work."""

import os
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from gputune.runs.found import listed
from gputune.runs.labels import give
from gputune.runs.pruning import old, remove
from gputune.runs.rows import rows
from tests.comparing.conftest import Make
from tests.runs.test_rows import age

DAY = 86400.0


def test_old_runs_go_with_all_that_is_in_them_and_nothing_else(run: Make, tmp_path: Path) -> None:
    outside = tmp_path / "dataset"
    outside.mkdir()
    (outside / "keep").touch()
    gone = run("runs/1")
    (gone / "samples").mkdir()
    (gone / "samples" / "00000.parquet").touch()
    (gone / "data").symlink_to(outside)
    (tmp_path / "runs" / "link").symlink_to(outside)
    other = tmp_path / "runs" / "checkpoints"
    other.mkdir()
    young, named = run("runs/2"), run("runs/3")
    give(named, "baseline")
    for folder in (gone, named, other):
        age(folder, time.time() - 31 * DAY)
    going, spared = old(rows(listed(tmp_path / "runs")), 30 * DAY)
    done = remove(going, spared)
    assert done.removed == ["1"]
    assert [(each.name, each.why) for each in done.spared] == [("3", "its label is `baseline`")]
    assert sorted(each.name for each in (tmp_path / "runs").iterdir()) == ["2", "3", "checkpoints", "link"]
    assert (outside / "keep").exists()
    assert young.exists()


def test_a_run_that_goes_on_stays_however_long_it_was_silent(run: Make) -> None:
    (found,) = rows([age(run("a"), time.time() - 31 * DAY)])
    going, spared = old([replace(found, state="live")], DAY)
    assert (going, [each.why for each in spared]) == ([], ["it goes on"])


def test_what_this_gputune_cannot_read_stays(run: Make) -> None:
    (found,) = rows([age(run("a", about={"schema_version": 9}), time.time() - 31 * DAY)])
    assert old([found], DAY)[0] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_holds_somebody_elses_files_stays(run: Make) -> None:
    folder = run("a")
    os.chown(folder / "findings.json", 12345, 12345)
    (found,) = rows([age(folder, time.time() - 31 * DAY)])
    assert [each.why for each in old([found], DAY)[1]] == ["some of it is somebody else's"]


def test_what_has_changed_since_somebody_was_asked_stays(run: Make, tmp_path: Path) -> None:
    folders = [age(run(name), time.time() - 31 * DAY) for name in ("a", "b", "c")]
    going, _spared = old(rows(folders), DAY)
    give(folders[0], "wait")  # a label is no use of a run, and keeps it all the same
    (folders[1] / "run.json").touch()
    folders[2].rename(tmp_path / "moved")
    (tmp_path / "c").symlink_to(tmp_path / "moved")
    done = remove(going, [])
    assert (done.removed, done.bytes) == ([], 0)
    assert [each.why for each in done.spared] == ["it has changed since it was listed"] * 2 + [
        "it is no run folder of yours any more"
    ]
    assert (tmp_path / "moved" / "run.json").exists()
