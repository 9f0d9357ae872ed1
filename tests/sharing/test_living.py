"""While they run, `share.json` says how it goes, a row for each process; at the end it says what came of it."""

import json
from pathlib import Path

import pytest

from gputune.report.packed import render
from gputune.sharing.living import ShareLiveWriter
from gputune.verdict.document import to_json
from gputune.verdict.packed import Packed, ProcRow, read

NOW = ("--trial", "0", "--no-index-args")
TASK = str(Path(__file__).parent / "task.py")


def found(folder: Path) -> Packed | None:
    return next((read(file.parent) for file in folder.glob("gputune-runs/*/share.json")), None)


def test_there_is_a_row_for_each_while_it_runs(started, eventually, tmp_path) -> None:
    code = "while [ ! -e go ]; do sleep 0.05; done; exit $GPUTUNE_PROCESS_INDEX"
    with started("--procs", "2", *NOW, "--", "sh", "-c", code) as running:
        eventually(lambda: found(tmp_path) is not None)
        told = found(tmp_path)
        assert told is not None
        assert (told.running, told.phase, told.exit_code, told.verdict) == (True, "packed", None, "")
        assert [(row.index, row.state, row.exit_code) for row in told.procs] == [(n, "running", None) for n in range(2)]
        assert all(row.pid > 0 and Path(row.log).is_file() for row in told.procs)
        (tmp_path / "go").touch()
        running.communicate(timeout=60)
    told = found(tmp_path)
    assert told is not None
    assert (told.running, told.phase, told.exit_code) == (False, "", 1)
    assert [(row.state, row.exit_code) for row in told.procs] == [("ended", 0), ("ended", 1)]


def test_the_pace_of_late_is_there_while_it_runs(started, eventually, simgpu, tmp_path) -> None:
    simgpu()
    with started("--procs", "1", "--trial", "0", TASK, "--idle", "0.01", "--steps", "100000") as running:
        eventually(lambda: (told := found(tmp_path)) is not None and told.procs[0].recent is not None)
        told = found(tmp_path)
        assert told is not None
        (row,) = told.procs
        assert row.unit == "samples/s"
        assert 0 < row.recent <= 400  # 4 samples in 10 ms and more
        running.terminate()
        running.communicate(timeout=60)


def test_a_launcher_that_says_nothing_any_more_is_said_to_be_gone() -> None:
    row = ProcRow(index=0, pid=7, exit_code=None, log="/l", wall_s=1.0, samples_per_s=None, state="running")
    left = Packed(running=True, procs=[row], mps=False, alone=None, together=None, gain=None)
    assert render(left, silent=3.0).endswith("these had not ended when this was written")
    assert render(left, silent=600.0).endswith("nothing was heard of their launcher for 10 min: it is gone, or stopped")


def test_what_was_refused_on_the_way_is_not_left_running(share, simgpu, tmp_path) -> None:
    simgpu().set(memory_total=80 * 10**9, memory_reserved=0)
    done = share(
        *("--procs", "3", "--trial", "1", TASK, "--memory", str(30 * 10**9), "--steps", "4000", "--idle", "0.01")
    )
    assert done.returncode == 2
    told = found(tmp_path)
    assert told is not None
    assert (told.running, told.exit_code) == (False, 2)
    assert "3 copies do not fit" in told.notes[-1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that stands where its one number says."""
    at = [100.0]
    monkeypatch.setattr("gputune.sharing.living.time.monotonic", lambda: at[0])
    return at


class NoPace:
    def look(self, _members: object) -> dict[int, object]:
        return {}


def test_it_is_written_when_somebody_comes_or_goes_and_every_two_seconds(tmp_path: Path, clock: list[float]) -> None:
    written: list[float] = []

    def made(_recent: object) -> Packed:
        written.append(clock[0])
        return Packed(procs=[], mps=False, alone=None, together=None, gain=None)

    living = ShareLiveWriter(str(tmp_path), NoPace(), made)  # type: ignore[arg-type] # it paces nobody
    for at, shape in ((100.0, "a"), (100.4, "a"), (100.6, "a"), (100.7, "a"), (100.8, "b"), (102.5, "b"), (102.7, "b")):
        clock[0] = at
        living.look([], shape)
    assert written == [100.6, 100.8, 102.7]


def test_a_folder_that_is_gone_is_said_once_and_hurts_nobody(tmp_path: Path) -> None:
    living = ShareLiveWriter(str(tmp_path / "gone"), NoPace(), lambda _: None)  # type: ignore[arg-type] # as above
    living.put(Packed(procs=[], mps=False, alone=None, together=None, gain=None))
    assert "share.json" in living.trouble
    assert not living.written


def test_a_document_of_an_older_gputune_is_read(tmp_path: Path) -> None:
    row = ProcRow(index=0, pid=7, exit_code=None, log="/l", wall_s=1.0, samples_per_s=None, state="running")
    whole = json.loads(to_json(Packed(running=True, procs=[row], mps=False, alone=None, together=None, gain=None)))
    for name in ("running", "phase", "compute_mode"):
        del whole[name]
    for name in ("recent", "card", "trial"):
        del whole["procs"][0][name]
    (tmp_path / "share.json").write_text(json.dumps(whole))
    told = read(tmp_path)
    assert told is not None
    assert not told.running
    assert "running" in render(told).splitlines()[1]
