"""Runs scripts under the guest, as `gputune watch` would start them, and returns what the loader probe read of them."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from gputune.core.events import Event, Kind, Record, SpanCode
from gputune.core.sample import Guest, Json, Note, Open, Reading, Target
from gputune.probes import loader
from tests.guest import interpreters

GUEST = Path(__file__).resolve().parents[2] / "probes" / "guest"
FAKE_TORCH = Path(__file__).resolve().parent / "fake_torch"
DEADLINE = 110.0  # s; only a hang ends here


@dataclass
class Watched:
    """What came of one script."""

    status: int
    out: str
    err: str
    readings: list[Reading] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # files in the rings' folder after all processes were gone

    @property
    def guests(self) -> dict[int, Guest]:
        return {r.process: r for r in self.readings if isinstance(r, Guest)}

    @property
    def main(self) -> int:
        """The one training process."""
        (process,) = [p for p, guest in self.guests.items() if guest.role == "main"]
        return process

    @property
    def workers(self) -> list[int]:
        return [p for p, guest in self.guests.items() if guest.role == "worker"]

    def role_before_records(self, process: int) -> str | None:
        """Return what was known of a process as its first record came, for who takes it asks whose it is."""
        told = None
        for reading in self.readings:
            if isinstance(reading, Guest) and reading.process == process:
                told = reading.role
            elif isinstance(reading, Event) and reading.process == process:
                break
        return told

    def notes(self, kind: str) -> list[dict[str, Json]]:
        return [r.fields for r in self.readings if isinstance(r, Note) and r.fields.get("n") == kind]

    def open(self) -> Open | None:
        """The last that was said of what the training process was in the middle of."""
        found = [r for r in self.readings if isinstance(r, Open) and r.process == self.main]
        return found[-1] if found else None

    def records(self, kind: Kind, process: int | None = None) -> list[Record]:
        process = self.main if process is None else process
        return [
            r.record for r in self.readings if isinstance(r, Event) and r.process == process and r.record.kind == kind
        ]

    def spans(self, code: SpanCode, what: str | None = None) -> list[Record]:
        """The pauses of one kind in the training process; `what` is what made them."""
        sites = {note["id"] for note in self.notes("site") if note["what"] == what}
        return [r for r in self.records(Kind.SPAN) if r.code == code and (what is None or r.a in sites)]

    def healthy(self) -> "Watched":
        """Fail if the script failed or the guest swallowed an error."""
        assert self.status == 0, self.err
        assert self.notes("error") == []
        assert self.notes("off") == []
        return self


Run = Callable[..., Watched]


@pytest.fixture
def rings(tmp_path: Path) -> Path:
    folder = tmp_path / "rings"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def watched(tmp_path: Path, rings: Path) -> Run:
    """Run `code` as a script under the guest. `python`, `flags`, `env` and `path` (more of PYTHONPATH) as given."""

    def run(
        code: str,
        *,
        python: str = sys.executable,
        flags: tuple[str, ...] = (),
        env: dict[str, str] | None = None,
        path: tuple[Path, ...] = (),
        act: Callable[[subprocess.Popen[str], list[Reading]], None] | None = None,
    ) -> Watched:
        script = tmp_path / "train.py"
        script.write_text(code)
        environment = {**os.environ, "GPUTUNE_RINGS": str(rings), "GPUTUNE_HOST_PID": str(os.getpid()), **(env or {})}
        environment["PYTHONPATH"] = os.pathsep.join([str(GUEST), *map(str, path)])
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        files = [tmp_path / "out", tmp_path / "err"]
        with files[0].open("w") as out, files[1].open("w") as err:
            process = subprocess.Popen(
                [python, *flags, "train.py"], cwd=tmp_path, env=environment, stdout=out, stderr=err, text=True
            )
        probe = loader.attach(Target(process.pid, dict, rings=rings))
        readings: list[Reading] = []
        end = time.monotonic() + DEADLINE
        try:
            while process.poll() is None:
                readings += next(probe)
                if act is not None:
                    act(process, readings)
                if time.monotonic() > end:
                    pytest.fail(f"hangs: {files[1].read_text()}")
                time.sleep(0.02)
            readings += next(probe)
            while _alive(readings) and time.monotonic() < end:  # workers that outlive a killed process for a moment
                time.sleep(0.02)
                readings += next(probe)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            probe.close()
        left = sorted(entry.name for entry in rings.iterdir())
        return Watched(process.returncode, files[0].read_text(), files[1].read_text(), readings, left)

    return run


def _alive(readings: list[Reading]) -> bool:
    return any(not guest.ended for guest in {r.process: r for r in readings if isinstance(r, Guest)}.values())


@pytest.fixture(params=[f"3.{minor}" for minor in range(8, 15)])
def python(request: pytest.FixtureRequest) -> str:
    """Each interpreter from 3.8 upwards that this machine has, and that starts."""
    return _started(request.param)


@pytest.fixture
def python_2() -> str:
    """An interpreter that is too old for the guest."""
    return _started("2.7")


def _started(version: str) -> str:
    path, why = interpreters.found(version)
    if not path:
        pytest.skip(why)
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is tried under each interpreter: `make interpreters` runs it where a machine has several."""
    for item in items:
        if {"python", "python_2"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.interpreters)


@pytest.fixture
def fake_torch() -> Path:
    """A folder for PYTHONPATH that holds a `torch` in pure Python with the shape that the guest hooks into."""
    return FAKE_TORCH


@pytest.fixture
def lightly(watched: Run, fake_torch: Path) -> Run:
    """Run `code` as `watched` does, with that torch: where nothing of the real one matters, a tenth of the time."""
    return partial(watched, path=(fake_torch,))
