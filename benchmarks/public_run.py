"""One run of a public script: what it printed and when, its status, and how much others used the CPUs meanwhile."""

import contextlib
import fcntl
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "zoo"))
from machine import busy_s, stolen_since, wanted_s

DEADLINE_S = 300.0  # a run is meant to take a quarter of a minute, and takes a minute and a half on a slow machine
FOREIGN = 0.15  # cores used by others during a run: above it, its timing is not the script's own
TURN_S = 40.0  # with one more run about as long as others are to wait
LINE_ENDS = re.compile(rb"[\r\n]")  # a progress bar returns to the start of its line


@dataclass(frozen=True)
class Line:
    """A line of output, or a state of a progress bar, and when it was complete (s since the run's start)."""

    at: float
    text: str


@dataclass(frozen=True)
class Ran:
    """One run. `foreign` are cores that others used, `stolen` is the share that the host of a virtual machine took."""

    status: int
    out: list[Line]
    err: list[Line]
    wall_s: float
    foreign: float
    stolen: float

    def loop_s(self, clock: str) -> float | None:
        """Return the seconds from the first line that `clock` matches to the last one; None where there are no two."""
        times = sorted(line.at for line in [*self.out, *self.err] if re.search(clock, line.text))
        return times[-1] - times[0] if len(times) > 1 else None

    def last_words(self) -> str:
        """Return the last line that it printed on stderr, else on stdout."""
        spoken = [line.text.strip() for lines in (self.out, self.err) for line in lines if line.text.strip()]
        return spoken[-1] if spoken else "nothing was printed"


@dataclass
class _Stream:
    rest: bytes = b""
    lines: list[Line] = field(default_factory=list)

    def take(self, data: bytes, at: float) -> None:
        *complete, self.rest = LINE_ENDS.split(self.rest + data)
        self.lines += [Line(at, text.decode(errors="replace")) for text in complete]

    def end(self, at: float) -> None:
        if self.rest:
            self.take(b"\n", at)


def run(argv: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Ran:
    """Run a command to its end, or to the deadline: then all of it is killed."""
    busy, wanted, began = busy_s(), wanted_s(), time.monotonic()
    out, err = _Stream(), _Stream()
    with subprocess.Popen(
        argv,
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},  # else lines are seen long after they were printed
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            _follow(process, out, err, began)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    wall = time.monotonic() - began
    foreign = max(0.0, (busy_s() - busy) / wall)
    return Ran(process.returncode, out.lines, err.lines, wall, foreign, stolen_since(wanted))


def _follow(process: subprocess.Popen[bytes], out: _Stream, err: _Stream, began: float) -> None:
    with selectors.DefaultSelector() as selector:
        for pipe, stream in ((process.stdout, out), (process.stderr, err)):
            assert pipe is not None
            selector.register(pipe, selectors.EVENT_READ, stream)
        while selector.get_map():
            if time.monotonic() - began > DEADLINE_S:
                os.killpg(process.pid, signal.SIGKILL)
            for key, _ in selector.select(timeout=1.0):
                if data := os.read(key.fd, 1 << 16):
                    key.data.take(data, time.monotonic() - began)
                else:
                    key.data.end(time.monotonic() - began)
                    selector.unregister(key.fileobj)
    process.wait()


def undisturbed(once: Callable[[], Ran], attempts: int) -> Ran:
    """Run again while others disturb it, up to `attempts` times in all; return the least disturbed run."""
    runs = [once()]
    while runs[-1].foreign > FOREIGN and len(runs) < attempts:
        runs.append(once())
    return min(runs, key=lambda ran: ran.foreign)


class Turn:
    """A lock that is held during runs, on machines on which others measure too and take the same one; None: no lock."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._since = 0.0

    def __enter__(self) -> "Turn":
        if self._path:
            self._file = self._path.open("a")
            fcntl.flock(self._file, fcntl.LOCK_EX)
        self._since = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def give_way(self) -> None:
        """Let others have their turn, between two runs, where ours has been long."""
        if self._file and time.monotonic() - self._since > TURN_S:
            self.__exit__()
            self.__enter__()
