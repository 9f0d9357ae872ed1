"""The verdict that was kept: the same for all who show it, with the same errors where it is newer or damaged."""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import gputune
from gputune.exporters import ExportRequest, _told
from gputune.recording.about import NewerRun
from gputune.report import kept, rejudging
from gputune.runs.one import kept as one
from gputune.verdict.document import Verdict
from tests.comparing.conftest import Make, run, verdict

__all__ = ["run"]

pytestmark = pytest.mark.filterwarnings("ignore:.*has no verdict of its own")

DAMAGED = (b"", b"{", b"[]", b'{"schema_version": 1}', b'{"schema_version": "1"}', b"{}", b"\xff", b"[" * 100_000)
KEPT, ANEW = 900, 77  # batches

Reader = Callable[[Path], Verdict]


def loaded(folder: Path) -> Verdict:
    return gputune.load(folder).verdict


def compared(folder: Path) -> Verdict:
    return one(folder).verdict()


def exported(folder: Path) -> Verdict:
    return _told.told(ExportRequest(run=folder, typed=str(folder), say=lambda _: None), {}).verdict


@pytest.fixture(params=[loaded, compared, exported, kept.shown])
def reader(request: pytest.FixtureRequest) -> Reader:
    """Return one of those who show a verdict."""
    return request.param  # type: ignore[no-any-return] # it is one of the above


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a recording that is judged again come to fewer batches."""
    again = verdict(batches=ANEW)
    for module in (rejudging, _told):
        monkeypatch.setattr(module, "rejudge", lambda *_, **__: again)


def test_a_verdict_of_this_version_is_told_by_all(run: Make, reader: Reader) -> None:
    assert reader(run("a", gputune=gputune.__version__)).batches == KEPT


@pytest.mark.parametrize("document", DAMAGED)
def test_a_damaged_one_is_judged_anew_by_all(run: Make, reader: Reader, document: bytes) -> None:
    folder = run("a")
    (folder / "findings.json").write_bytes(document)
    assert reader(folder).batches == ANEW


def test_one_that_is_a_link_or_a_pipe_counts_as_damaged(run: Make, reader: Reader, tmp_path: Path) -> None:
    folder = run("a")
    (tmp_path / "elsewhere.json").write_bytes((folder / "findings.json").read_bytes())
    (folder / "findings.json").unlink()
    (folder / "findings.json").symlink_to(tmp_path / "elsewhere.json")
    assert reader(folder).batches == ANEW
    (folder / "findings.json").unlink()
    os.mkfifo(folder / "findings.json")
    assert reader(folder).batches == ANEW


def test_where_none_was_kept_all_judge_anew(run: Make, reader: Reader) -> None:
    folder = run("a")
    (folder / "findings.json").unlink()
    assert reader(folder).batches == ANEW


@pytest.mark.parametrize("reader", [loaded, compared, exported], indirect=True)
def test_one_of_a_newer_version_is_refused_with_that_version(run: Make, reader: Reader) -> None:
    folder = run("a", schema_version=7, gputune="9.1")
    with pytest.raises(NewerRun, match=r"schema version 7, written by gputune 9\.1"):
        reader(folder)


def test_a_page_or_a_report_of_it_is_made_of_the_records(run: Make) -> None:
    assert kept.shown(run("a", schema_version=7)).batches == ANEW
    assert kept.shown(run("b", gputune="0.0.1")).batches == ANEW


def test_without_records_a_page_shows_what_another_version_said(run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(*_: object) -> Verdict:
        raise gputune.Damaged("batches/000", "cut")

    monkeypatch.setattr(rejudging, "rejudge", damaged)
    folder = run("a", gputune="0.0.1")
    assert kept.shown(folder).batches == KEPT
    (folder / "findings.json").write_text("{")
    with pytest.raises(gputune.Damaged, match="batches/000"):
        kept.shown(folder)


def test_a_file_that_was_named_is_judged_by_nothing_else(run: Make, tmp_path: Path) -> None:
    lone = tmp_path / "ci.json"
    lone.write_bytes(msgspec.json.encode(verdict()))
    assert kept.verdict_of(lone).batches == KEPT
    for document in DAMAGED:
        lone.write_bytes(document)
        with pytest.raises(kept.NoVerdict, match=r"is no `findings\.json`"):
            kept.verdict_of(lone)


def test_the_hint_at_a_damaged_one_judges_its_records(run: Make) -> None:
    folder = run("a")
    (folder / "findings.json").write_text("{")
    with pytest.raises(kept.DamagedVerdict) as caught:
        kept.kept(folder)
    assert caught.value.hint == f"`gputune report {folder} --again` judges what was recorded"
