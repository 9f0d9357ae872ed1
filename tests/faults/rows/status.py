"""Status and signals are the command's own: with a terminal, without one, as process 1 of a container.

`watch`, `run` and `share`, without a terminal, on one, and as process 1 of a pid namespace; every exit code, every
signal that ends a process, from inside, and every signal that can be sent, from outside: the same as of the bare
command. As process 1 nothing dies of a signal: the status is then 128 and its number, as a shell tells it.
"""

import contextlib
import functools
import itertools
import os
import pty
import random
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.faults.row import Case, NotHere, must
from tests.faults.runs import GPUTUNE, eventually
from tests.watch.supervised import HARMLESS, LOST, STOPS

TESTS = "watch/test_status.py, test_terminal.py; sharing/test_lives.py"
HOW = {
    "watch": (*GPUTUNE, "watch", "--quiet", "--no-stacks", "--"),
    "run": (*GPUTUNE, "run", "--"),
    "share": (*GPUTUNE, "share", "--procs", "1", "--no-index-args", "--trial", "0", "--"),
}
PLACES = ("plain", "terminal", "process 1")
FATAL = sorted(int(number) for number in signal.valid_signals() - STOPS - HARMLESS)
SENT = sorted(int(number) for number in signal.valid_signals() - LOST)
WHAT = [
    *(("code", code) for code in range(256)),
    *(("death", number) for number in FATAL),
    *(("sent", number) for number in SENT),
]
ALL = list(itertools.product(HOW, PLACES, WHAT))
random.Random(1).shuffle(ALL)
QUICK, FULL, SHARE = 150, len(ALL), 9
SECONDS = 200.0
FIRST = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child")
TOML = '[[loader]]\nwhere = "train.py:41"\nnum_workers = 6\n'
WAITS = (
    "import os, pathlib, signal, sys; number = int(sys.argv[1]); signal.pthread_sigmask(signal.SIG_BLOCK, {number}); "
    "pathlib.Path('ready').touch(); os._exit(signal.sigwait({number}))"
)


def command(kind: str, number: int) -> tuple[str, ...]:
    if kind == "code":
        return ("/bin/sh", "-c", f"exit {number}")
    if kind == "death":
        return ("/bin/sh", "-c", f"ulimit -c 0; kill -{number} $$")
    return (sys.executable, "-I", "-S", "-c", WAITS, str(number))


class Started:
    """A command in one of the places; `pid` is whom signals are sent to."""

    def __init__(self, argv: tuple[str, ...], place: str, folder: Path) -> None:
        self._fd = -1
        if place == "terminal":
            self.top, self._fd = pty.fork()
            if not self.top:
                os.chdir(folder)
                os.execvp(argv[0], argv)
        else:
            argv = (*FIRST, *argv) if place == "process 1" else argv
            nothing = subprocess.DEVNULL
            self._popen = subprocess.Popen(argv, cwd=folder, stdin=nothing, stdout=nothing, stderr=nothing)
            self.top = self._popen.pid
        self._place = place

    @property
    def pid(self) -> int:
        """Return whom a signal is for: in a namespace its process 1."""
        if self._place != "process 1":
            return self.top
        return int(Path(f"/proc/{self.top}/task/{self.top}/children").read_text().split()[0])

    def ended(self) -> bool:
        """Return whether it is over, without taking its status."""
        return os.waitid(os.P_PID, self.top, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def status(self) -> int:
        """Return the exit code, negative for a signal."""
        if self._fd < 0:
            return self._popen.wait(SECONDS)
        deadline = time.monotonic() + SECONDS
        with contextlib.suppress(OSError):  # the last process on the terminal is gone
            while time.monotonic() < deadline:
                if select.select([self._fd], [], [], 1)[0] and not os.read(self._fd, 1 << 16):
                    break
        os.close(self._fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.top, 0)[1])


def status(argv: tuple[str, ...], place: str, what: tuple[str, int], folder: Path) -> int:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "gputune.toml").write_text(TOML)
    started = Started(argv, place, folder)
    if what[0] == "sent":
        eventually(lambda: (folder / "ready").exists() or started.ended(), "the command that waits for a signal")
        if not started.ended():
            os.kill(started.pid, what[1])
    return started.status()


@contextlib.contextmanager
def bench(folder: Path) -> Iterator[Case]:
    if subprocess.run((*FIRST, "true"), check=False, capture_output=True).returncode:
        raise NotHere("no pid namespace may be made here")

    @functools.cache
    def bare(place: str, what: tuple[str, int]) -> int:
        """Return what the bare command leaves with; as process 1 it is a shell that started it."""
        if place != "process 1":
            return status(command(*what), place, what, folder / "bare")
        return 128 + what[1] if what[0] == "death" else what[1]

    def case(number: int) -> None:
        how, place, what = ALL[number]
        found = status((*HOW[how], *command(*what)), place, what, folder / "under")
        must(found == bare(place, what), f"{how}, {place}, {what}: {found} instead of {bare(place, what)}")

    yield case
