"""`gputune doctor`: each check tried, alone, with a fix where something is missing."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputune.host import checks
from gputune.host.checks import Check, Roots
from tests.conftest import Run

Simulated = Callable[..., Any]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Roots]:
    """A /proc and a /sys with nothing in them."""
    for name in ("proc", "sys", "shm"):
        (tmp_path / name).mkdir()
    return Roots(
        python=sys.executable, proc=tmp_path / "proc", sys=tmp_path / "sys", shm=tmp_path / "shm", here=tmp_path
    )


def test_every_row_that_is_not_well_says_what_would_help(gputune: Run) -> None:
    done = gputune("doctor", "--json", "--python", sys.executable)
    assert done.returncode == 0
    rows = json.loads(done.stdout)["checks"]
    assert {"guest", "nvml", "stacks", "cpus", "shm", "folder"} <= {row["name"] for row in rows}
    assert [row for row in rows if row["state"] not in {"ok", "limited", "missing"} or not row["says"]] == []
    unfixable = {"gpm", "mig"}  # the card itself cannot do it
    assert [r for r in rows if r["state"] != "ok" and not r["fix"] and r["name"] not in unfixable] == []


def test_the_guest_reaches_this_interpreter(machine: Roots) -> None:
    (row,) = checks.guest(machine)
    assert row.state == "ok"
    assert sys.executable in row.says


def test_what_a_sitecustomize_prints_is_no_version(machine: Roots, tmp_path: Path) -> None:
    chatty = tmp_path / "python"
    chatty.write_text(f'#!/bin/sh\necho SITECUSTOMIZE\nexec {sys.executable} "$@"\n')
    chatty.chmod(0o755)
    (row,) = checks.guest(Roots(python=str(chatty)))
    assert "SITECUSTOMIZE" not in row.says
    assert row.says.startswith(f"Python {sys.version_info[0]}.{sys.version_info[1]} at ")


def test_an_interpreter_that_shuts_the_guest_out_is_said(machine: Roots, tmp_path: Path) -> None:
    isolated = tmp_path / "python"
    isolated.write_text(f'#!/bin/sh\nexec {sys.executable} -I "$@"\n')
    isolated.chmod(0o755)
    (row,) = checks.guest(Roots(python=str(isolated)))
    assert (row.state, "was not reached" in row.says) == ("missing", True)


def test_an_interpreter_that_is_not_there_is_said(gputune: Run) -> None:
    done = gputune("doctor", "--python", "no-such-python")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: `no-such-python` was not found\n\nhint: ")
    (row,) = checks.guest(Roots(python="no-such-python"))  # where a file of options names it, the other rows still help
    assert (row.state, row.says) == ("missing", "`no-such-python` was not found")


def test_a_program_that_is_no_python_is_said(machine: Roots) -> None:
    (row,) = checks.guest(Roots(python="true"))
    assert row.state == "missing"


def test_devices_are_counted_with_what_they_can_tell(simgpu: Simulated) -> None:
    simgpu(devices=2)
    rows = {row.name: row for row in checks.nvml(Roots())}
    assert rows["nvml"].state == "ok"
    assert rows["nvml"].says.startswith("2 × ")
    assert "gpm" in rows


def test_a_lost_device_takes_no_other_with_it(simgpu: Simulated) -> None:
    simgpu(devices=2).fault("nvmlDeviceGetName", 15, device=1)
    first, second, *_rest = checks.nvml(Roots())
    assert (first.state, first.says[:4]) == ("ok", "1 × ")
    assert (second.state, "device 1 cannot be read" in second.says) == ("limited", True)


def test_a_driver_that_hangs_is_said_after_the_deadline(simgpu: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "DEADLINE_S", 1.0)
    simgpu().fault("nvmlDeviceGetCount_v2", delay=-1)
    (row,) = checks.nvml(Roots())
    assert (row.state, row.says) == ("missing", "the driver did not answer within 1 s")


def test_pressure_needs_a_kernel_that_has_it(machine: Roots) -> None:
    assert [row.state for row in checks.pressure(machine)] == ["missing"]
    (machine.proc / "pressure").mkdir()
    (machine.proc / "pressure" / "io").write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n")
    assert [row.state for row in checks.pressure(machine)] == ["ok"]


@pytest.mark.parametrize(("text", "state"), [("1234 56 7\n", "ok"), ("0 0 0\n", "missing")])
def test_schedstat_that_stays_zero_is_off(machine: Roots, text: str, state: str) -> None:
    (machine.proc / "self").mkdir()
    (machine.proc / "self" / "schedstat").write_text(text)
    assert [row.state for row in checks.schedstat(machine)] == [state]


def test_shared_memory_that_is_not_there_is_missing(machine: Roots) -> None:
    machine.shm.rmdir()
    assert [row.state for row in checks.shm(machine)] == ["missing"]


def test_a_check_that_stumbles_takes_no_other_with_it(machine: Roots, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_place: Roots) -> Iterator[Check]:
        raise RuntimeError("boo")
        yield  # pragma: no cover - makes it a generator

    monkeypatch.setattr(checks, "CHECKS", (("broken", broken), ("pressure", checks.pressure)))
    first, second = checks.run(machine)
    assert (first.name, first.state, first.says) == ("broken", "missing", "could not be checked: RuntimeError: boo")
    assert second.name == "pressure"


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--network", "m8"], 2, "requires 2 arguments"),
        (["--network", "m8", "m8"], 2, "`m8` was named twice"),
        (["--network", "m8", "unix:/run/a.sock"], 2, "through a Unix socket"),
        (["--network", "m 8", "m9"], 2, "not the name or address of a host"),
        (["--network", "unix:/none/a.sock", "m9"], 1, "no agent runs there"),
        (["--network", "unix:/none/a.sock", "m9", "--run", "no-such-run"], 2, "no-such-run"),
        (["--run", "x"], 2, "`--run` goes with `--network`"),
    ],
)
def test_a_link_that_cannot_be_measured_is_one_sentence(
    gputune: Run, arguments: list[str], status: int, says: str
) -> None:
    done = gputune("doctor", *arguments)
    assert done.returncode == status
    assert says in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
