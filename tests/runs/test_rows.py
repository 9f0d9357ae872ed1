"""A row for each run, whatever became of it."""

import errno
import json
import os
import time
from pathlib import Path

import pytest

from gputune.core.errors import BadUsage
from gputune.launch.job import MARK
from gputune.runs.chosen import chosen
from gputune.runs.found import NoRuns, listed
from gputune.runs.labels import FILE, give, label
from gputune.runs.one import kept, state
from gputune.runs.rows import row, rows
from gputune.runs.words import table
from tests.comparing.conftest import Make, finding

LATE = time.time() - 3600


def age(folder: Path, when: float = LATE) -> Path:
    """Have everything in a folder written at that time."""
    for each in [*folder.rglob("*"), folder]:
        os.utime(each, (when, when), follow_symlinks=False)
    return folder


def test_a_folder_that_somebody_else_hides_keeps_no_other_from_the_list(
    run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, hidden = run("all/a"), run("all/b")
    is_file = Path.is_file

    def refusing(file: Path) -> bool:
        if hidden in file.parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(file))
        return is_file(file)

    monkeypatch.setattr(Path, "is_file", refusing)
    assert listed(tmp_path / "all") == [shown]


def test_a_row_says_when_how_fast_and_what_was_found(run: Make) -> None:
    folder = run("a", 812.0, findings=[finding("few-workers", 2.2)], about={"environment": {"SLURM_JOB_ID": "77"}})
    give(folder, "before AMP")
    found = row(folder)
    assert (found.name, found.state, found.samples_per_s, found.wall_s) == ("a", "ended", 812.0, 60.0)
    assert (found.finding, found.gain, found.label, found.job) == ("few-workers", 2.2, "before AMP", "77")
    assert found.started == 1_700_000_000.0
    assert found.bytes >= 3 * 4096
    assert not found.foreign


@pytest.mark.parametrize("width", [60, 50, 40])
def test_on_a_narrow_terminal_the_gain_stays(run: Make, width: int) -> None:
    shown = table([row(run("a-long-name-of-a-run", findings=[finding("communication-bound", 5.9)]))], width)
    assert max(map(len, shown.splitlines())) <= width
    assert "communicat" in shown
    assert "×5.9" in shown


def test_of_a_risk_no_gain_is_shown(run: Make) -> None:
    shown = table([row(run("a", findings=[finding("device-errors", 1.0)]))])
    assert "device-errors" in shown
    assert "×" not in shown


@pytest.mark.parametrize(
    ("about", "old", "says"),
    [
        ({"exit_code": 0}, True, "ended"),
        ({"exit_code": None, "attached": True, "ended": 5}, True, "ended"),
        ({"exit_code": None, "ranks": ["rank-00000"], "finished": True}, True, "ended"),
        ({"exit_code": None, "finished": True}, False, "killed"),
        ({"exit_code": None, "finished": False}, True, "killed"),
        ({"exit_code": None, "finished": False}, False, "live"),
    ],
)
def test_how_a_run_stands(run: Make, about: dict[str, object], old: bool, says: str) -> None:
    folder = run("a", about=about)
    if old:
        age(folder)
    assert state(folder, kept(folder).about) == says


def test_a_run_without_a_verdict_is_listed_without_being_judged(run: Make) -> None:
    folder = run("a", about={"exit_code": None, "finished": False})
    (folder / "findings.json").unlink()
    age(folder)
    found = row(folder)
    assert (found.state, found.samples_per_s, found.finding) == ("killed", None, "")
    assert row(folder, live={folder.resolve()}).state == "live"


def test_a_run_that_was_killed_tells_how_fast_it_last_was(run: Make) -> None:
    folder = run("a", about={"exit_code": None, "finished": False})
    whole = json.loads((folder / "findings.json").read_text())
    live = {"updated_s": 60.0, "judged_s": 60.0, "window_s": 60.0, "whole": whole, "window": whole}
    (folder / "findings.json").unlink()
    (folder / "live.json").write_text(json.dumps(live))
    age(folder)
    found = row(folder)
    assert (found.state, found.samples_per_s, found.wall_s) == ("killed", 800.0, 60.0)


def test_a_job_that_goes_on_is_told_by_its_first_rank(run: Make, tmp_path: Path) -> None:
    run("job/rank-00000", about={"exit_code": None, "finished": False})
    (tmp_path / "job" / MARK).write_text("slurm-77_0")
    assert row(tmp_path / "job").state == "live"


def test_a_job_that_has_ended_began_when_its_lowest_rank_did(run: Make, tmp_path: Path) -> None:
    run("job", about={"ranks": ["rank-00000"], "started": None, "exit_code": None})
    run("job/rank-00000", at=2)
    (tmp_path / "job" / MARK).write_text("slurm-77_0")
    found = row(tmp_path / "job")
    assert (found.state, found.started) == ("ended", 1_700_000_000.0 + 2 * 3600)


def test_what_cannot_be_read_has_its_reason(run: Make) -> None:
    newer, damaged = run("a", about={"schema_version": 9}), run("b")
    (damaged / "run.json").write_text("{")
    found = rows([newer, damaged])
    assert [each.state for each in found] == ["unreadable", "unreadable"]
    assert {"schema version 9" in found[n].why for n in (0, 1)} == {True, False}
    half = run("c")
    (half / "findings.json").write_text('{"schema_version": 1}')
    assert row(half).state == "unreadable"


def test_only_run_folders_are_listed_the_oldest_first(run: Make, tmp_path: Path) -> None:
    run("runs/b", at=1)
    run("runs/a", at=2)
    other = tmp_path / "runs" / "checkpoints"
    other.mkdir()
    (other / "findings.json").write_text("{}")
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "runs" / "a")
    (tmp_path / "runs" / "file").touch()
    assert [each.name for each in rows(listed(tmp_path / "runs"))] == ["b", "a"]
    assert listed(tmp_path / "runs" / "a") == [tmp_path / "runs" / "a"]
    with pytest.raises(NoRuns):
        listed(other)
    with pytest.raises(BadUsage):
        listed(tmp_path / "nowhere")


def test_runs_are_chosen_by_all_that_is_asked(run: Make) -> None:
    one = run("a", findings=[finding("few-workers", 2.0), finding("low-prefetch", 1.2)])
    two = run("b", findings=[finding("low-prefetch", 1.3)])
    give(one, "x")
    found = rows([one, two])
    for asked, names in (
        ({}, ["a", "b"]),
        ({"finding": "low-prefetch"}, ["a", "b"]),
        ({"finding": "few-workers"}, ["a"]),
        ({"label": "x", "finding": "low-prefetch"}, ["a"]),
        ({"job": "7"}, []),
    ):
        named = {"job": None, "finding": None, "label": None, **asked}
        assert sorted(each.name for each in chosen(found, **named)) == names


def test_a_label_is_one_clean_line_and_can_be_taken_away(run: Make, tmp_path: Path) -> None:
    folder = run("a")
    assert label(folder) == ""
    give(folder, " first ")
    give(folder, "second")
    assert label(folder) == "second"
    assert (folder / FILE).stat().st_mode & 0o777 == 0o600
    give(folder, "")
    assert not (folder / FILE).exists()
    for text in ("two\nlines", "\x1b[2J", "x" * 61):
        with pytest.raises(BadUsage):
            give(folder, text)
    with pytest.raises(BadUsage):
        give(tmp_path, "x")


def test_a_label_of_somebody_elses_making_reaches_no_terminal(run: Make) -> None:
    folder = run("a")
    (folder / FILE).write_text("\x1b]52;c;x\x07")
    assert "\x1b" not in label(folder)
    (folder / FILE).unlink()
    (folder / FILE).symlink_to("/etc/hostname")
    assert label(folder) == ""


def test_the_document_is_plain_json(run: Make) -> None:
    import msgspec

    found = json.loads(msgspec.json.encode(row(run("a"))))
    assert found["why"] == ""
    assert found["findings"] == []
