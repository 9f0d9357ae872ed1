"""Strangers on the card and on the CPUs are found and named; the job and gputune itself are not among them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from simgpu import Cards, Device

from gputune.core.sample import Note, Reading, Sample, Target
from gputune.probes import neighbours, nvml

Maker = Callable[..., Cards]
PATIENCE = 60.0  # s; a deadline, not a pause
HERE = Path(__file__).parent.parent / "simgpu"
HZ = os.sysconf("SC_CLK_TCK")


def read(target: Target, happened: Callable[[dict[str, Sample], list[dict[str, Any]]], object]) -> None:
    """Tick both probes until something happened, or the deadline is over."""
    samples: dict[str, Sample] = {}
    notes: list[dict[str, Any]] = []
    deadline = time.monotonic() + PATIENCE
    with closing(neighbours.attach(target)) as ours, closing(nvml.attach(target)) as card:  # type: ignore[type-var] # generators
        while not happened(samples, notes):
            assert time.monotonic() < deadline, (samples, notes)
            readings: list[Reading] = [*next(ours), *next(card)]
            samples.update({r.column: r for r in readings if isinstance(r, Sample)})
            notes += [r.fields for r in readings if isinstance(r, Note)]
            time.sleep(0.02)


def test_a_stranger_on_the_card_is_told_from_the_job(simgpu: Maker) -> None:
    simgpu()
    code = f"import sys; sys.path.insert(0, {str(HERE)!r}); from simgpu import Device; g = Device(); g.alloc(2 << 30)"
    stranger = subprocess.Popen(
        [sys.executable, "-c", f"{code}; g.launch(600.0); print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert stranger.stdout is not None
    assert stranger.stdout.readline() == "up\n"
    gpu = Device()
    gpu.launch(600.0)
    one = f"gpu.other.busy[0:{stranger.pid}]"

    def seen(samples: dict[str, Sample], notes: list[dict[str, Any]]) -> bool:
        if one not in samples or "gpu.job.busy[0]" not in samples:
            return False
        shares = [samples[name].value for name in (one, "gpu.others.busy[0]", "gpu.job.busy[0]")]
        named = any(note["n"] == "neighbour" and note["pid"] == stranger.pid and note["name"] for note in notes)
        return named and shares == pytest.approx([0.5, 0.5, 0.5], abs=0.02)

    try:
        read(Target(os.getpid(), lambda: {os.getpid(): "main"}), seen)
    finally:
        gpu.close()
        stranger.communicate("\n", timeout=PATIENCE)


def test_a_card_without_strangers_has_none(simgpu: Maker) -> None:
    simgpu()
    gpu = Device()
    gpu.launch(60.0)

    def alone(samples: dict[str, Sample], notes: list[dict[str, Any]]) -> bool:
        return "gpu.others.busy[0]" in samples and "gpu.job.busy[0]" in samples

    def check(samples: dict[str, Sample], notes: list[dict[str, Any]]) -> bool:
        if alone(samples, notes):
            assert [samples[f"gpu.others.{what}[0]"].value for what in ("busy", "memory", "count")] == [0, 0, 0]
        return alone(samples, notes)

    read(Target(os.getpid(), lambda: {os.getpid(): "main"}), check)
    gpu.close()


def test_a_ghost_of_another_container_is_counted_and_called_unknown(simgpu: Maker) -> None:
    cards = simgpu()
    ghost = 3_999_999  # above pid_max's usual value
    cards.ghost(ghost, 5 << 30, 0.3)
    gpu = Device()
    gpu.launch(60.0)

    def seen(samples: dict[str, Sample], notes: list[dict[str, Any]]) -> bool:
        return (
            f"gpu.other.busy[0:{ghost}]" in samples
            and samples["gpu.others.memory[0]"].value == 5 << 30
            and {"n": "neighbour", "pid": ghost, "name": "unknown"} in notes
        )

    read(Target(os.getpid(), lambda: {os.getpid(): "main"}), seen)
    gpu.close()


def test_the_mps_server_is_no_stranger(simgpu: Maker, tmp_path: Path) -> None:
    cards = simgpu()
    cards.ghost(77, 30 << 20, 0.1)
    cards.ghost(88, 1 << 30, 0.1)
    (tmp_path / "42").mkdir()
    for pid, name in ((77, "nvidia-cuda-mps-server"), (88, "somebody")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(name[:15])

    def seen(samples: dict[str, Sample], notes: list[dict[str, Any]]) -> bool:
        if "gpu.others.count[0]" in samples:
            assert samples["gpu.others.count[0]"].value == 1
        return "gpu.others.count[0]" in samples

    read(Target(root_pid=42, pids=lambda: {42: "main"}, proc=tmp_path), seen)


def write_stat(proc: Path, pid: int, name: str, ticks: int, started: int = 5) -> None:
    """Write the process `pid`, which used `ticks` of CPU time."""
    (proc / str(pid)).mkdir(exist_ok=True)
    fields = ["S", "1", *["0"] * 9, str(ticks), *["0"] * 7, str(started), "0"]
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
    (proc / str(pid) / "comm").write_text(f"{name}\n")


def test_who_takes_cpus_is_found_by_a_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    clock = [100.0]
    monkeypatch.setattr(neighbours.time, "monotonic", lambda: clock[0])
    for pid, name in ((42, "train"), (7, "quiet"), (8, "evil\x1b[2J"), (9, "gone")):
        write_stat(tmp_path, pid, name, 1000)
    cpus = neighbours._Cpus(Target(root_pid=42, pids=lambda: {42: "main"}, proc=tmp_path))
    assert cpus.scan() == []
    clock[0] += 10
    write_stat(tmp_path, 42, "train", 1000 + 100 * HZ)
    write_stat(tmp_path, 7, "quiet", 1000 + HZ)
    write_stat(tmp_path, 8, "evil\x1b[2J", 1000 + 15 * HZ)
    write_stat(tmp_path, 9, "another", 5000, started=99)  # the pid was given to a new process
    readings = cpus.scan()
    assert [(r.column, r.value) for r in readings if isinstance(r, Sample)] == [("cpu.neighbour[8]", 1.5)]
    assert [r.fields["name"] for r in readings if isinstance(r, Note)] == ["evil\\x1b[2J"]
    assert cpus.scan() == []  # not due yet


def test_who_is_bound_to_other_cpus_is_no_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(neighbours.time, "monotonic", lambda: clock[0])
    masks = {42: "ff,00000003", 7: "ff,00000000", 8: "00000000,0000000c", 9: "1"}
    for pid, mask in masks.items():
        write_stat(tmp_path, pid, f"p{pid}", 1000)
        (tmp_path / str(pid) / "status").write_text(f"Name:\tp{pid}\nCpus_allowed:\t{mask}\nMems_allowed:\t1\n")
    cpus = neighbours._Cpus(Target(root_pid=42, pids=lambda: {42: "main"}, proc=tmp_path))
    assert cpus.scan() == []
    clock[0] += 10
    for pid in (7, 8, 9):
        write_stat(tmp_path, pid, f"p{pid}", 1000 + 10 * HZ)
    told = {r.instance for r in cpus.scan() if isinstance(r, Sample)}
    assert told == {"7", "9"}
