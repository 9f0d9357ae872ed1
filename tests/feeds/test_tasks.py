"""Who uses the machine, told by a /proc that is a folder."""

import os
import time
from pathlib import Path

import pytest

from gputune.core import opening
from gputune.feeds import tasks
from gputune.feeds.tasks import Kin, OnDevice, Tasks
from gputune.host.procfs import CLOCK_TICKS


def process(proc: Path, pid: int, parent: int, name: str, *, used: float = 0.0, resident: int = 10) -> None:
    """Write /proc/PID/stat of a process that has used so many s of CPU."""
    fields = ["0"] * 50
    fields[0], fields[1], fields[11], fields[21] = "S", str(parent), str(int(used * CLOCK_TICKS)), str(resident)
    (proc / str(pid)).mkdir(exist_ok=True)
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the time that `tasks` reads, as a list of one."""
    at = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    return at


def test_roles_come_from_who_stands_above(tmp_path: Path, clock: list[float]) -> None:
    for pid, parent, name in (
        (1, 0, "init"),
        (10, 1, "bash"),
        (11, 10, "python"),
        (12, 11, "python"),
        (13, 12, "tar"),
        (20, 1, "x"),
    ):
        process(tmp_path, pid, parent, name)
    rows = Tasks(tmp_path).look([Kin("m8/run", 10, frozenset({11}))], {})
    assert {row.pid: row.role for row in rows} == {10: "other", 11: "main", 12: "worker", 13: "worker"}
    assert {row.run for row in rows} == {"m8/run"}


def test_strangers_are_told_of_when_they_use_cpus(tmp_path: Path, clock: list[float]) -> None:
    process(tmp_path, 20, 1, "evil\x1b[2J)")
    process(tmp_path, 21, 1, "idle")
    every = Tasks(tmp_path)
    assert every.look([], {}) == ()
    clock[0] += tasks.SCAN_S + 1.0
    process(tmp_path, 20, 1, "evil\x1b[2J)", used=1.5)
    (row,) = every.look([], {})
    assert (row.pid, row.name, row.role, row.cpu) == (20, "evil\\x1b[2J)", "foreign", 0.5)


def test_between_two_scans_nothing_is_read(tmp_path: Path, clock: list[float]) -> None:
    process(tmp_path, 10, 1, "python")
    every = Tasks(tmp_path)
    kin = [Kin("r", 10, frozenset())]
    rows = every.look(kin, {})
    (tmp_path / "10" / "stat").unlink()
    clock[0] += tasks.SCAN_S / 2
    assert every.look(list(kin), {}) is rows
    assert every.look([], {}) == ()  # unless a run has begun or ended


def test_who_is_on_a_device_is_told_of_also_from_another_container(tmp_path: Path, clock: list[float]) -> None:
    process(tmp_path, 10, 1, "python")
    rows = Tasks(tmp_path).look([], {10: OnDevice((0, 1), 5e9), 777: OnDevice((1,), None)})
    assert [(row.pid, row.device, row.device_memory) for row in rows] == [(10, "0,1", 5e9), (777, "1", None)]
    assert "container" in rows[1].name


def test_parents_that_go_in_a_circle_end(tmp_path: Path, clock: list[float]) -> None:
    process(tmp_path, 10, 11, "a")
    process(tmp_path, 11, 10, "b")
    assert Tasks(tmp_path).look([Kin("r", 5, frozenset())], {}) == ()


@pytest.mark.parametrize("name", ["", "  "])
def test_a_process_without_a_name_has_a_row_like_any_other(tmp_path: Path, clock: list[float], name: str) -> None:
    process(tmp_path, 10, 1, "python")
    process(tmp_path, 11, 10, name)
    rows = Tasks(tmp_path).look([Kin("r", 10, frozenset())], {})
    assert [(row.pid, row.name, row.role) for row in rows] == [(10, "python", "other"), (11, "no name", "other")]


def test_a_row_says_whose_it_is_what_was_typed_and_for_how_long(tmp_path: Path, clock: list[float]) -> None:
    process(tmp_path, 10, 1, "python")
    process(tmp_path, 11, 10, "pt_main_thread")
    (tmp_path / "11" / "cmdline").write_bytes(b"/opt/python\0-u\0train.py\0--token\0abc\0")
    kin = Kin("m8/run", 10, frozenset({11}), {11: 3})
    main = next(row for row in Tasks(tmp_path).look([kin], {11: OnDevice((0, 1), 6e9, 0.4)}) if row.role == "main")
    assert (main.command, main.rank, main.parent, main.device_share) == ("train.py --token ***", 3, 10, 0.4)
    assert main.user == opening.name_of(os.getuid())
    assert main.age == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), rel=0.01)


def test_three_thousand_processes_cost_what_those_cost_that_are_told_of(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    for pid in range(10, 3010):
        process(tmp_path, pid, 1, "x" * 15)
    every = Tasks(tmp_path)
    every.look([], {})
    read: list[str] = []
    real = tasks.read_bytes
    monkeypatch.setattr(tasks, "read_bytes", lambda path: read.append(path) or real(path))
    clock[0] += 100.0
    for pid in range(10, 3010):
        process(tmp_path, pid, 1, "x" * 15, used=50.0)
    assert len(every.look([], {})) == tasks.MOST_STRANGERS
    assert sum(path.endswith("cmdline") for path in read) == tasks.MOST_STRANGERS
