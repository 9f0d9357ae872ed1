"""Of a packed run whose launcher was lost the document says so; of one that told its end nothing is changed."""

from pathlib import Path

import pytest

from gputune.launch.link import Ended
from gputune.verdict.document import to_json
from gputune.verdict.packed import FILE, Packed, ProcRow, read
from gputune.watching.recorder import lost_launcher

KILLED = Ended(-9, 0, 0.0, 0)


def row(index: int, state: str, code: int | None = None) -> ProcRow:
    return ProcRow(index=index, pid=7, exit_code=code, log="/l", wall_s=1.0, samples_per_s=2.0, state=state, recent=3.0)


def packed(*, running: bool) -> Packed:
    rows = [row(0, "running"), row(1, "paused"), row(2, "ended", 3), row(3, "waiting")]
    return Packed(running=running, phase="packed", procs=rows, mps=False, alone=1.0, together=None, gain=None)


def test_who_ran_is_lost_and_who_had_ended_or_not_begun_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(to_json(packed(running=True)))
    says = lost_launcher.told(tmp_path, KILLED)
    assert says == "the launcher was killed by signal 9 (Killed): its processes were ended with it"
    told = read(tmp_path)
    assert told is not None
    assert (told.running, told.phase, told.verdict, told.exit_code) == (False, "", says, -9)
    assert [(one.state, one.exit_code, one.recent) for one in told.procs] == [
        ("lost", None, None),
        ("lost", None, None),
        ("ended", 3, 3.0),
        ("waiting", None, 3.0),
    ]


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (Ended(None, 0, 0.0, 0), "the launcher is gone"),
        (Ended(1, 0, 0.0, 0), "the launcher left with status 1 before its time"),
        (Ended(-11, 0, 0.0, 0), "the launcher was killed by signal 11"),
    ],
)
def test_how_it_was_lost_is_said_as_far_as_it_is_known(tmp_path: Path, ended: Ended, says: str) -> None:
    (tmp_path / FILE).write_bytes(to_json(packed(running=True)))
    assert lost_launcher.told(tmp_path, ended).startswith(says)


def test_a_launcher_that_told_its_end_and_a_folder_without_one_are_left_alone(tmp_path: Path) -> None:
    assert lost_launcher.told(tmp_path, KILLED) == ""
    whole = to_json(packed(running=False))
    (tmp_path / FILE).write_bytes(whole)
    assert lost_launcher.told(tmp_path, KILLED) == ""
    assert (tmp_path / FILE).read_bytes() == whole
