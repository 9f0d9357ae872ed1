"""The processes of `gputune share` as rows: while they run, at their end, and after a launcher that was killed."""

from pathlib import Path

import msgspec
import pytest

from gputune.feeds import packs
from gputune.verdict.packed import Packed, ProcRow

RUNNING = ProcRow(
    index=0, pid=100, wall_s=None, exit_code=None, log="/elsewhere/process0.log", samples_per_s=80.0, state="running",
    unit="samples/s", recent=95.0, device_memory=2e9, host_memory=1e9, device_share=0.3,
)  # fmt: skip
ENDED = ProcRow(
    index=1, pid=101, wall_s=None, exit_code=-9, log="process1.log", samples_per_s=70.0, why="out of memory", recent=1.0
)
WAITING = ProcRow(index=2, pid=0, wall_s=None, exit_code=None, log="", samples_per_s=None, state="waiting")


def packed(**changes: object) -> Packed:
    """Return the document of three processes."""
    facts: dict[str, object] = {"schema_version": 1, "procs": [RUNNING, ENDED, WAITING], "mps": False}
    facts |= dict.fromkeys(("alone", "together", "gain"))
    return Packed(**{**facts, **changes})  # type: ignore[arg-type] # a test names the field it is about


def test_while_they_run_the_last_seconds_count() -> None:
    first, second, third = packs.rows(packed(), "live")
    assert (first.pid, first.state, first.rate, first.unit, first.share) == (100, "running", 95.0, "samples/s", 0.3)
    assert (first.memory, first.host_memory, first.exit_code) == (2e9, 1e9, None)
    assert (second.state, second.exit_code, second.rate, second.why) == ("ended", -9, 70.0, "out of memory")
    assert (third.pid, third.state, third.rate) == (None, "waiting", None)


def test_of_a_copy_that_failed_its_last_line_is_told(tmp_path: Path) -> None:
    log = tmp_path / "process1.log"
    log.write_text("epoch 1\nRuntimeError: out of luck\n")
    failed = ProcRow(index=0, pid=1, wall_s=None, exit_code=1, log=str(log), samples_per_s=None)
    killed = ProcRow(index=1, pid=2, wall_s=None, exit_code=-9, log=str(log), samples_per_s=None, why="no heartbeat")
    fine = ProcRow(index=2, pid=3, wall_s=None, exit_code=0, log=str(log), samples_per_s=None)
    told = [row.why for row in packs.rows(packed(procs=[failed, killed, fine]), "live")]
    assert told == ["RuntimeError: out of luck", "no heartbeat · RuntimeError: out of luck", ""]


def test_of_a_launcher_that_was_killed_it_is_not_known_how_they_are() -> None:
    first, second, _ = packs.rows(packed(), "broken")
    assert (first.state, first.rate) == ("unknown", 80.0)
    assert second.state == "ended"


def test_who_was_never_started_is_still_waiting_at_the_end() -> None:
    assert [row.state for row in packs.rows(packed(), "ended")] == ["unknown", "ended", "waiting"]
    assert packs.rows(packed(), "broken")[2].state == "unknown"


def test_a_document_that_was_left_running_says_that_its_launcher_is_gone() -> None:
    left = packed(running=True, phase="packed")
    assert packs.words(left, "live") == ""
    for state in ("broken", "ended"):
        assert packs.words(left, state) == "the launcher is gone: nobody saw how these ended"


def test_a_copy_that_is_only_measured_says_so() -> None:
    trial = ProcRow(
        index=0, pid=1, wall_s=None, exit_code=None, log="", samples_per_s=None, state="running", trial=True
    )
    document = packed(procs=[trial], phase="trying")
    assert [row.state for row in packs.rows(document, "live")] == ["trial"]
    assert packs.words(document, "live").startswith("copies are tried")
    assert packs.words(document, "broken") == ""
    assert packs.words(packed(verdict="3 at once did 160"), "ended") == "3 at once did 160"


def test_what_is_missing_damaged_or_of_the_future_is_none(tmp_path: Path) -> None:
    assert packs.load(tmp_path) is None
    (tmp_path / packs.FILE).write_text("{")
    assert packs.load(tmp_path) is None
    (tmp_path / packs.FILE).write_bytes(msgspec.json.encode(packed(schema_version=99)))
    assert packs.load(tmp_path) is None
    (tmp_path / packs.FILE).write_bytes(msgspec.json.encode(packed()))
    assert packs.load(tmp_path) == packed()


def test_names_are_made_harmless_and_logs_are_as_they_are_typed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    evil = ProcRow(
        index=0, pid=1, wall_s=None, exit_code=1, log=f"{tmp_path}/x/process0.log", samples_per_s=None, name="\x1b[2J",
        why="\x9b31m",
    )  # fmt: skip
    (row,) = packs.rows(packed(procs=[evil]), "ended")
    assert (row.name, row.why, row.log) == ("\\x1b[2J", "\\x9b31m", "x/process0.log")
