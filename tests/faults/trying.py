"""Cases of a row, one after the other: who dies or hangs has failed, and the rest goes on without it."""

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.faults.row import NotHere, Row

ROOT = Path(__file__).parents[2]
PATIENCE = 20.0  # s for a bench to end by itself
START = 300.0  # s until a bench stands: it may record a run first
LOOK = 0.5  # s between two looks at whether all is to end
STOP = threading.Event()  # all is to end: what is being tried is dropped
Line = dict[str, object]


class Stopped(Exception):  # noqa: N818 - named for what happened
    """All is to end."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a case: `why` is empty where the promise was kept."""

    case: int
    why: str
    figure: float | None = None
    cpu: float = 0.0  # s


class Bench:
    """The process that tries a row's cases."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self._folder = Path(tempfile.mkdtemp(prefix=f"faults-{row.name}-"))
        self._log = (self._folder / "log").open("w+b")
        (self._folder / "bench").mkdir()
        command = (sys.executable, "-m", "tests.faults.bench", row.name, str(self._folder / "bench"))
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
            env=_environment(),
        )
        self._rest = b""
        try:
            ready = self._heard(START)
        except Stopped:
            self.close(0)
            raise
        if ready is None:
            why = f"its bench does not stand: {self.last_words()}"
            self.close(PATIENCE)
            raise RuntimeError(f"{row.name}: {why}")
        if "not_here" in ready:
            self.close(PATIENCE)
            raise NotHere(str(ready["not_here"]))

    def tried(self, case: int) -> Result | None:
        """Return what came of a case; None where the process died or hung with it."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._process.stdin.fileno(), f"{case}\n".encode())
        heard = self._heard(self._row.seconds)
        if heard is None:
            return None
        return Result(int(heard["case"]), str(heard["why"]), heard.get("figure"), float(heard["cpu"]))

    def end(self) -> str:
        """Return what ended it, where nothing was heard of a case."""
        if self._process.poll() is None and not _ends(self._process):
            return f"hangs: no answer within {self._row.seconds:.0f} s"
        code = self._process.returncode
        died = signal.Signals(-code).name if code < 0 else f"status {code}"
        return f"the process died ({died}): {self.last_words()}"

    def last_words(self) -> str:
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 1500))
        return self._log.read().decode(errors="replace").strip()

    def close(self, patience: float) -> None:
        """End it and all that it has started; it has so long (s) to do that itself."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        if not _ends(self._process, patience):
            for process in _below(self._process.pid):
                with contextlib.suppress(psutil.Error):
                    process.kill()
            self._process.kill()
            self._process.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _heard(self, patience: float) -> Line | None:
        deadline = time.monotonic() + patience
        while b"\n" not in self._rest:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self._process.stdout], [], [], min(left, LOOK))
            if STOP.is_set():
                raise Stopped
            if not ready and left:
                continue
            data = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return dict(json.loads(line))


def _environment() -> dict[str, str]:
    """Return the environment of a bench: no setting of whoever runs it, and no colour."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith("GPUTUNE_")}
    return {**plain, "PYTHONUTF8": "1", "NO_COLOR": "1"}


def _ends(process: "subprocess.Popen[bytes]", patience: float = 2) -> bool:
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        return False
    return True


def _below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def results(row: Row, cases: Iterable[int], until: float | None = None) -> Iterator[Result]:
    """Yield what comes of cases of a row, until they or the time (monotonic s) are over. Raises NotHere."""
    bench: Bench | None = None
    try:
        for case in cases:
            if STOP.is_set() or (until is not None and time.monotonic() > until):
                return
            bench = bench or Bench(row)
            result = bench.tried(case)
            if result is None:
                result = Result(case, bench.end())
                bench.close(0)
                bench = None
            yield result
    except Stopped:
        return
    finally:
        if bench is not None:
            bench.close(0 if STOP.is_set() else PATIENCE)
