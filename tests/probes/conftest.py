"""A machine to read, as a folder: the parts of /proc and /sys that a test is about, and a clock that it turns."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from gputune.core.sample import Reading, Role, Sample, Target


@dataclass
class Machine:
    """Writes /proc and /sys below a folder. A file that is written again keeps its place, as a kept-open one must."""

    root: Path
    roles: dict[int, Role] = field(default_factory=dict)

    @property
    def proc(self) -> Path:
        return self.root / "proc"

    @property
    def sys(self) -> Path:
        return self.root / "sys"

    def target(self, root_pid: int = 100) -> Target:
        return Target(root_pid, lambda: dict(self.roles), self.proc, self.sys, self.root / "rings")

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def stat(self, *cpus: tuple[int, ...]) -> None:
        """Write /proc/stat: for each CPU the ticks in use and waiting for storage, and stolen ones if there are any."""
        rows = []
        for number, (busy, waiting, *stolen) in enumerate(cpus):
            rows.append(f"cpu{number} {busy} 0 0 500 {waiting} 0 0 {sum(stolen)} 0 0\n")
        self.write("proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10\n" + "".join(rows) + "intr 5 0 0\nctxt 7\n")

    def process(self, pid: int, role: Role = "other", **facts: int | str) -> None:
        """Write a process: its CPU in ticks (`cpu`, `waited`), `read` and `written` bytes, `queued` ns, …"""
        known: dict[str, int | str] = {"parent": 1, "state": "S", "cpu": 0, "waited": 0, "threads": 1, "started": 1}
        known |= {"read": 0, "written": 0, "asked": 0, "queued": 0, "cpus": "0-1"} | facts
        fields = ["0"] * 50
        fields[0], fields[1], fields[17] = str(known["state"]), str(known["parent"]), str(known["threads"])
        fields[11], fields[13], fields[19] = str(known["cpu"]), str(known["waited"]), str(known["started"])
        self.roles[pid] = role
        folder = f"proc/{pid}"
        self.write(f"{folder}/stat", f"{pid} (python (3) x) {' '.join(fields)}\n")
        io = f"rchar: {known['asked']}\nwchar: 0\nsyscr: 1\nsyscw: 1\nread_bytes: {known['read']}\n"
        self.write(f"{folder}/io", io + f"write_bytes: {known['written']}\ncancelled_write_bytes: 0\n")
        self.write(f"{folder}/schedstat", f"1 {known['queued']} 3\n")
        self.write(f"{folder}/status", f"Name:\tpython\nCpus_allowed:\t3\nCpus_allowed_list:\t{known['cpus']}\n")

    def end(self, pid: int) -> None:
        """Let a process be gone."""
        del self.roles[pid]
        for file in (self.proc / str(pid)).iterdir():
            file.unlink()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.stat((0, 0), (0, 0))
    return made


@dataclass
class Clock:
    """A clock that stands still until it is turned; `of` gives it to a module."""

    patch: pytest.MonkeyPatch
    seconds: float = 1000.0

    def of(self, module: str) -> None:
        place = import_module(module)
        self.patch.setattr(place, "now", lambda: round(self.seconds * 1e9))
        if hasattr(place, "time"):
            fake = SimpleNamespace(monotonic=lambda: self.seconds, thread_time=time.thread_time)
            self.patch.setattr(place, "time", fake)

    def turn(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def values():
    """Return a function that makes columns and values of readings."""

    def of(readings: list[Reading]) -> Mapping[str, float]:
        return {reading.column: reading.value for reading in readings if isinstance(reading, Sample)}

    return of
