"""One run folder as a row: live, ended, broken off, and as it was."""

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputune.core.units import NS
from gputune.feeds import packs
from gputune.feeds.one_run import GONE, OneRun
from gputune.feeds.rows import RunRow
from gputune.recording import NewerRun, NotARun, following
from gputune.recording.folder import LIVE
from gputune.report.rejudging import FINDINGS, rejudge
from gputune.verdict.packed import Packed, ProcRow

Make = Callable[..., Any]
BEGAN = 10**12  # as in conftest.py


def looked(run: OneRun) -> RunRow:
    """Return the row once everything was read."""
    row = run.look()
    while run.behind:
        row = run.look()
    return row


def age(folder: Path, seconds: float) -> None:
    """Make every file look as if it had been written so long ago."""
    for file in folder.iterdir():
        os.utime(file, (time.time() - seconds,) * 2)


def test_a_finished_run_has_its_verdict_its_history_and_its_length(finished: Make) -> None:
    row = looked(OneRun(finished(), "m8"))
    assert (row.id, row.node, row.name, row.state) == ("m8/run", "m8", "train.py", "ended")
    assert row.length == pytest.approx(8.0)
    assert row.command == ("python", "train.py", "--x")
    assert row.history.wait[1:7] == pytest.approx([0.75] * 6, abs=0.05)
    assert row.history.busy[1] == pytest.approx(0.25)
    assert row.verdict is not None
    assert row.verdict.findings


def test_the_verdict_that_was_written_counts(finished: Make) -> None:
    folder = finished()
    verdict = msgspec.structs.replace(rejudge(folder), samples_per_s=1234.0)
    (folder / FINDINGS).write_bytes(msgspec.json.encode(verdict))
    row = looked(OneRun(folder))
    assert row.verdict is not None
    assert row.verdict.samples_per_s == 1234.0
    assert row.node == "recording"


def test_a_live_run_is_followed(recorded: Make) -> None:
    recording, folder = recorded(4)
    run = OneRun(folder, "m8")
    row = looked(run)
    assert (row.state, row.verdict) == ("live", None)
    assert row.length == pytest.approx(4.0)
    verdict = rejudge(folder)
    live = {"updated_s": 4.0, "judged_s": 3.5, "window_s": 4.0, "whole": verdict, "window": verdict}
    (folder / LIVE).write_bytes(msgspec.json.encode(live))
    row = looked(run)
    assert row.judged == 3.5
    assert row.verdict == row.recent == verdict
    recording.about(exit_code=0)
    recording.close()
    row = looked(run)
    assert (row.state, run.ended) == ("ended", True)
    run.close()


def test_a_run_that_nobody_records_any_more_is_broken_and_judged_all_the_same(recorded: Make) -> None:
    _, folder = recorded()
    age(folder, 3600)
    row = looked(OneRun(folder))
    assert row.state == "broken"
    assert row.verdict is not None
    assert row.verdict.batches > 100


def test_an_earlier_moment_is_judged_as_of_then(finished: Make) -> None:
    run = OneRun(finished())
    whole = looked(run)
    run.seek(4.0)
    then = run.look()
    assert (then.at, then.length) == (4.0, whole.length)
    assert then.verdict is not None
    assert whole.verdict is not None
    assert 80 <= then.verdict.batches <= 110 < whole.verdict.batches
    assert then.verdict.exit_code is None
    assert run.board is not None
    assert run.board.node("m8", "recorded").devices[0].busy == 0.25
    run.seek(None)
    assert run.look().verdict == whole.verdict
    assert run.board is None


def test_a_run_from_the_future_is_refused_at_once(finished: Make) -> None:
    folder = finished()
    story = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**story, "schema_version": 99}))
    with pytest.raises(NewerRun):
        OneRun(folder)


def test_what_is_no_run_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(NotARun):
        OneRun(tmp_path)


def test_documents_of_the_future_are_left_alone(finished: Make) -> None:
    folder = finished()
    (folder / FINDINGS).write_text('{"schema_version": 9, "verdict": []}')
    row = looked(OneRun(folder))
    assert row.verdict is not None


def test_a_damaged_recording_is_a_sentence_and_no_end(finished: Make) -> None:
    folder = finished()
    (file,) = (folder / "batches").iterdir()
    data = bytearray(file.read_bytes())
    half = slice(4, len(data) // 2)  # whichever columns are looked at, pages of some of them lie there
    data[half] = bytes(byte ^ 0xFF for byte in data[half])
    file.write_bytes(data)
    run = OneRun(folder)
    row = looked(run)
    assert "cannot be" in row.why
    assert not run.behind


def test_the_processes_of_a_live_run_are_known(recorded: Make) -> None:
    recording, folder = recorded(2)
    run = OneRun(folder, "m8")
    assert run.kin.command == 4711
    recording.close()
    looked(run)
    assert run.kin.mains == {4711}


def test_an_ended_run_is_read_once(finished: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    run = OneRun(finished())
    row = looked(run)
    run.look()
    monkeypatch.setattr(following.Follower, "look", lambda self: pytest.fail("it was read again"))
    assert run.look() == row


def test_processes_that_share_a_device_are_rows_now_and_when_they_have_ended(recorded: Make) -> None:
    recording, folder = recorded(2)
    run = OneRun(folder, "m8")
    assert looked(run).procs == ()
    row = ProcRow(index=0, pid=7, exit_code=None, log="", wall_s=None, samples_per_s=8.0, state="running", recent=9.0)
    document = Packed(procs=[row], phase="alone", mps=False, alone=None, together=None, gain=None)
    (folder / packs.FILE).write_bytes(msgspec.json.encode(document))
    live = looked(run)
    assert [(one.pid, one.rate) for one in live.procs] == [(7, 9.0)]
    assert live.packed.startswith("the first runs alone")
    (folder / packs.FILE).write_bytes(msgspec.json.encode(msgspec.structs.replace(document, verdict="3 at once")))
    os.utime(folder / packs.FILE, ns=(1, 1))  # as no two writes within a tick of the clock would be told apart
    recording.close()
    assert (looked(run).packed, looked(run).procs[0].state) == ("3 at once", "unknown")


def test_a_run_whose_folder_is_gone_keeps_what_was_seen_and_says_so(finished: Make, recorded: Make) -> None:
    folder = finished()
    run = OneRun(folder, "m8")
    before = looked(run)
    shutil.rmtree(folder)
    gone = looked(run)
    assert gone == msgspec.structs.replace(before, why=GONE)
    another, _ = recorded(2)
    another.about(started=BEGAN + NS)  # in the same place
    another.close()
    assert looked(run) == gone
    assert not run.behind


def test_a_run_that_comes_back_is_shown_again(finished: Make) -> None:
    folder = finished()
    run = OneRun(folder, "m8")
    before = looked(run)
    folder.rename(folder.with_name("away"))  # as a file system does that is not mounted for a moment
    assert looked(run).why == GONE
    folder.with_name("away").rename(folder)
    assert looked(run) == before
