"""What may be typed as a side."""

from pathlib import Path

import pytest

from gputune.comparing.sides import NoSide, NothingTrained, side
from gputune.core.errors import GputuneError
from gputune.recording.about import NewerRun
from gputune.report.kept import NoVerdict
from gputune.runs.labels import give
from tests.comparing.conftest import Make, rank


def test_a_run_its_findings_and_a_folder_of_several(run: Make, tmp_path: Path) -> None:
    runs = [run(f"base/{n}", 100.0 + n, at=n) for n in range(3)]
    assert [rate.value for rate in side(str(runs[0])).rates] == [100.0]
    assert side(str(runs[1] / "findings.json")).rates == side(str(runs[1])).rates
    assert [rate.value for rate in side(str(tmp_path / "base")).rates] == [100.0, 101.0, 102.0]
    (tmp_path / "link").symlink_to(runs[2])
    assert [rate.value for rate in side(str(tmp_path / "link")).rates] == [102.0]


def test_a_findings_json_that_lies_alone_has_the_time_that_it_tells(run: Make, tmp_path: Path) -> None:
    lone = tmp_path / "ci.json"
    lone.write_bytes((run("a") / "findings.json").read_bytes())
    (rate,) = side(str(lone)).rates
    assert (rate.value, rate.at) == (800.0, None)
    lone.write_bytes((run("b", started="2023-11-14T22:13:20Z") / "findings.json").read_bytes())
    assert [rate.at for rate in side(str(lone)).rates] == [1_700_000_000.0]


def test_a_label_means_all_runs_that_have_it(run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n, label in enumerate(("old", "new", "old")):
        give(run(f"gputune-runs/{n}", 100.0 + n), label)
    monkeypatch.chdir(tmp_path)
    assert [rate.value for rate in side("old").rates] == [100.0, 102.0]
    (tmp_path / "old").mkdir()  # a folder of that name that holds no run hides none
    assert [rate.value for rate in side("old").rates] == [100.0, 102.0]


def test_what_is_no_run_is_refused(run: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    for typed in ("nowhere", "empty"):
        with pytest.raises(NoSide, match="no label"):
            side(typed)
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(NoVerdict):
        side("x.json")
    (tmp_path / "newer.json").write_text('{"schema_version": 7}')
    with pytest.raises(NewerRun):
        side("newer.json")
    newer = run("newer", about={"schema_version": 9})
    with pytest.raises(NewerRun):
        side(str(newer))


def test_a_run_that_trained_nothing_has_no_pace(run: Make) -> None:
    with pytest.raises(NothingTrained, match="no training was seen"):
        side(str(run("a", rate=None)))


def test_of_several_runs_those_without_a_pace_are_left_out(run: Make, tmp_path: Path) -> None:
    run("some/1", 100.0)
    run("some/2", rate=None)
    run("some/3", about={"schema_version": 9})
    found = side(str(tmp_path / "some"))
    assert [rate.value for rate in found.rates] == [100.0]
    assert [why.partition(" ")[0] for why in found.left_out] == ["2:", f"`{tmp_path}/some/3`"]
    assert issubclass(NothingTrained, GputuneError)


def test_what_did_not_go_its_way_to_the_end_is_told(run: Make) -> None:
    assert side(str(run("a"))).notes == []
    assert side(str(run("b", exit_code=7))).notes == ["b left with status 7"]
    (killed,) = side(str(run("c", exit_code=None))).notes
    assert "has no end" in killed
    (going,) = side(str(run("d", exit_code=None, about={"finished": False}))).notes
    assert "still goes on" in going
    (missing,) = side(str(run("e", processes=[rank(0, world=4)]))).notes
    assert missing == "e is a job of 4 ranks, of which 1 were heard"
